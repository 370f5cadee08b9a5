package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vipkit/vipkit/backends"
)

var _ backends.Checker = (*Backend)(nil)

// Check compares our chains and jumps with what the last Sync left: whether all exist,
// and all of their rules are those that were restored. It names the first difference. A jump that is no longer
// the first of its chain is left to the next Full Delta, so that two programs which
// both want to be first do not drive each other.
//
// With the nft variant it reads only a number, if nobody at all changed nftables since.
// Otherwise it reads both tables of each family: about 0.1 s for 10,000 rules. The error
// says that they cannot be read, or that the programs print rules in a way that is not
// known, so that only missing rules and chains, and a first rule that was replaced, can be found.
func (b *Backend) Check(ctx context.Context) (changed []string, err error) {
	if b.base == nil {
		return nil, nil
	}
	now := b.readGeneration()
	if now != 0 && now == b.generation {
		return nil, nil
	}
	blind := false
	for _, f := range b.families {
		blind = blind || f.blind
		for t := range table(numTables) {
			text, err := b.runner.save(ctx, f.family, t)
			if err != nil {
				return nil, fmt.Errorf("iptables: check %s: %w", f.ip, err)
			}
			if d := f.have[t].difference(f.parse(text, b.opts.Name), b.opts.Name); d != "" {
				return []string{fmt.Sprintf("%s table %s: %s", f.ip, t, d)}, nil
			}
		}
	}
	b.generation = now
	if blind {
		return nil, errors.New("iptables: check: rules are printed in a way that is not known, so only their number was compared")
	}
	return nil, nil
}

// difference says in words what is not as remembered, "" if all is.
func (s *state) difference(now *state, prefix string) string {
	for _, name := range slices.Sorted(maps.Keys(s.chains)) {
		is, ok := now.chains[name]
		switch {
		case !ok:
			return fmt.Sprintf("chain %s-%s is gone", prefix, name)
		case is != s.chains[name]:
			return fmt.Sprintf("chain %s-%s has other rules", prefix, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(now.chains)) {
		if _, ok := s.chains[name]; !ok {
			return fmt.Sprintf("chain %s-%s is not ours", prefix, name)
		}
	}
	for _, base := range slices.Sorted(maps.Keys(s.jumps)) {
		if !slices.Equal(s.jumps[base], now.jumps[base]) {
			return fmt.Sprintf("chain %s has not one jump of ours", base)
		}
	}
	return ""
}

// readGeneration returns the generation of nftables, 0 if it cannot be read. That of a
// kernel with only legacy tables never changes, so it says nothing.
func (b *Backend) readGeneration() uint32 {
	if !b.nft {
		return 0
	}
	n, err := b.kernel.generation()
	if err != nil {
		return 0
	}
	return n
}

// noteGeneration is called after a Sync with the generation from before it. If only our own
// commits were counted since a moment when all was known, it still is.
func (b *Backend) noteGeneration(before uint32) {
	now := b.readGeneration()
	known := before != 0 && before == b.generation || b.last.Full
	if known && now == before+uint32(b.last.Commits) {
		b.generation = now
	} else {
		b.generation = 0
	}
}
