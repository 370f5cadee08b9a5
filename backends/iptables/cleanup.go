package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/internal/process"
	"github.com/vipkit/vipkit/internal/bounded"
)

// Cleanup deletes all chains that begin with the prefix and the jumps to them, of both
// variants and families as far as there are programs and tables for them, and sets
// route_localnet back if it was set by a Backend. All other rules stay as they are.
//
// A chain that somebody else's rule names is only emptied, since that rule is not
// ours to delete; the error tells the rule.
func (b *Backend) Cleanup(ctx context.Context) error {
	b.base, b.families, b.generation = nil, nil, 0
	b.last = backends.Stats{}
	cleaners, err := b.cleaners(ctx)
	errs := []error{err}
	for _, r := range cleaners {
		for _, f := range families() {
			if failed := b.cleanFamily(ctx, r, f); failed != nil {
				errs = append(errs, fmt.Errorf("iptables: clean up %s: %w", f.ip, failed))
			}
		}
	}
	err = errors.Join(errs...)
	b.report(ctx, err)
	return err
}

// A cleaner is a runner, and whether it writes legacy tables.
type cleaner struct {
	runner
	legacy bool
}

// cleaners returns one for each variant that may have chains of ours, and why one cannot be told.
func (b *Backend) cleaners(ctx context.Context) ([]cleaner, error) {
	nft, err := b.isNFT(ctx)
	if err != nil {
		return nil, fmt.Errorf("iptables: clean up: %w", err)
	}
	all := []cleaner{{b.runner, !nft}}
	if _, ok := b.runner.(programs); !ok {
		return all, nil
	}
	other := programs{NFT, b.opts.LockWait, b.opts.Timeout}
	if nft {
		other.variant = Legacy
	}
	switch _, err := other.version(ctx, families()[0]); {
	case err == nil:
		all = append(all, cleaner{other, nft})
	case !process.Missing(err):
		return all, fmt.Errorf("iptables: clean up variant %s: %w", other.variant, err)
	}
	return all, nil
}

func (b *Backend) cleanFamily(ctx context.Context, r cleaner, f *family) error {
	exist := []string{nat.String(), filter.String()}
	if r.legacy {
		var err error
		if exist, err = b.kernel.legacyTables(f); err != nil {
			return err
		}
	}
	var errs []error
	// Filter last: its chain says that route_localnet is ours.
	for t := range table(numTables) {
		if slices.Contains(exist, t.String()) {
			errs = append(errs, b.cleanTable(ctx, r, f, t))
		}
	}
	return bounded.Join(errs...)
}

func (b *Backend) cleanTable(ctx context.Context, r cleaner, f *family, t table) error {
	text, err := r.save(ctx, f, t)
	if err != nil {
		return err
	}
	have := parseSaved(t, text, b.opts.Name)
	if _, ours := have.chains[chainLocalnet]; ours {
		if err := b.kernel.setSysctl(routeLocalnet, "0"); err != nil {
			return fmt.Errorf("reset route_localnet: %w", err) // the guard stays
		}
	}
	s := section{table: t, prefix: b.opts.Name}
	maps.Copy(have.chains, have.nodes)
	for _, name := range slices.Sorted(maps.Keys(have.chains)) {
		s.drop(name, have.chains[name].print() == "", have.pinned)
	}
	for _, base := range slices.Sorted(maps.Keys(have.jumps)) {
		s.jump(base, "", have.jumps[base])
	}
	foreign := pinnedChains(have, b.opts.Name, t)
	if s.lines() == 0 {
		return foreign
	}
	input, _ := script{&s}.text()
	if err := r.restore(ctx, f, input, false); err != nil {
		return err
	}
	b.last.Written += s.lines()
	b.last.Commits++
	return foreign
}

// pinnedChains says which chains cannot be deleted.
func pinnedChains(have *state, prefix string, t table) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(have.pinned)) {
		if _, ok := have.chains[name]; ok {
			errs = append(errs, fmt.Errorf("table %s: chain %s-%s is in use by a rule of %s", t, prefix, name, have.pinned[name]))
		}
	}
	return bounded.Join(errs...)
}
