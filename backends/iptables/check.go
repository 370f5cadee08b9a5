package iptables

import (
	"context"
	"errors"
	"fmt"

	"github.com/vipkit/vipkit/backends"
)

var _ backends.Checker = (*Backend)(nil)

// Check compares our chains and jumps with what the last Sync left: whether all exist,
// and all of their rules are those that were restored. A jump that is no longer
// the first of its chain is left to the next Full Delta, so that two programs which
// both want to be first do not drive each other.
//
// With the nft variant it reads only a number, if nobody at all changed nftables since.
// Otherwise it reads both tables of each family and compiles all ports: about 0.1 s for 10,000 rules. The error
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
	var errs []error
	for _, f := range b.families {
		f.dialect.checking = true
		found, unread := f.engine.Check(ctx)
		f.dialect.checking = false
		for _, text := range found {
			changed = append(changed, fmt.Sprintf("%s %s", f.dialect.ip, text))
		}
		if unread == nil && f.dialect.blind {
			unread = fmt.Errorf("iptables %s: check: rules are printed in a way that is not known, so only their number was compared", f.dialect.ip)
		}
		errs = append(errs, unread)
	}
	if err = errors.Join(errs...); err == nil && len(changed) == 0 {
		b.generation = now
	}
	return changed[:min(len(changed), backends.MostChanged)], err
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
