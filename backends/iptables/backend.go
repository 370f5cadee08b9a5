package iptables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/internal/process"
	"github.com/vipkit/vipkit/proxy/plan"
)

var _ backends.Backend = (*Backend)(nil)

// A Backend programs the iptables of the network namespace in which its methods are
// called. It is not safe for concurrent use.
type Backend struct {
	opts   Options
	runner runner
	kernel kernel

	families   []*familyState // in use; nil before the first Sync
	nft        bool           // the programs write nftables
	base       *plan.Plan     // what the tables hold, nil if that is not known
	generation uint32         // of nftables when the tables were as they should be, 0 if unknown
	last       backends.Stats
}

// A familyState is what is remembered of one family.
type familyState struct {
	*family
	untried []feature // what only some ports need and none needed yet
	missing []missing
	model   *model  // nil before the first Sync
	saved   *string // what start read of table nat and read has not used yet
	have    [numTables]*state

	// blind is set where iptables-save prints rules in a way that canonical does not know: then a chain
	// is recognised by the digest that it carries and by the number of its rules only.
	blind bool
}

// A kernel is what is read and written without a program.
type kernel interface {
	// generation returns a number that every commit to nftables by anybody
	// changes.
	generation() (uint32, error)

	// sysctl returns the value of a sysctl.
	sysctl(name string) (string, error)

	// setSysctl writes it.
	setSysctl(name, value string) error

	// legacyTables returns the names of the legacy tables that exist. To ask for others by
	// iptables-save would make them.
	legacyTables(f *family) ([]string, error)
}

// New returns a Backend. It reads and writes nothing; see [Backend.Probe].
func New(opts Options) (*Backend, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Backend{opts: opts, runner: programs{opts.Variant, opts.LockWait, opts.Timeout}, kernel: procKernel{}}, nil
}

// LastStats returns what the last Sync or Cleanup did.
func (b *Backend) LastStats() backends.Stats { return b.last }

// Sync makes the chains equal d.New, one family after the other. What a program restores
// is committed table by table: chains of table filter that come to deny, then table
// nat, then the rest of table filter.
//
// If d is not Full and d.Base is what the Backend wrote last, Sync reads nothing and restores
// only the chains that the change is about. Otherwise it reads both tables of each family and
// restores the chains that differ, by any of their rules; jumps that are not the first of their built-in
// chain are moved there.
//
// A Service port that the programs do not understand, such as one with SCTP where that
// is missing, is reported in a [plan.PartialError] and left out. After any other
// error some tables may be as they were, and the next Sync reads them.
func (b *Backend) Sync(ctx context.Context, d *plan.Delta) error {
	start := time.Now()
	b.last = backends.Stats{}
	err := b.sync(ctx, d)
	if err != nil && b.last.Failed == 0 {
		b.base = nil
	}
	b.last.Duration = time.Since(start)
	b.report(ctx, err)
	return err
}

func (b *Backend) report(ctx context.Context, err error) {
	if b.opts.OnSync != nil {
		b.opts.OnSync(b.last)
	}
	if b.opts.Logger != nil {
		b.opts.Logger.LogAttrs(ctx, slog.LevelDebug, "iptables sync", slog.Any("", b.last), slog.Any("error", err))
	}
}

func (b *Backend) sync(ctx context.Context, d *plan.Delta) error {
	if err := b.start(ctx); err != nil {
		return err
	}
	defer b.forgetSaved()
	b.last.Full = d.Full || b.base == nil || d.Base != b.base
	b.last.Changes = len(d.Changes)
	before := b.readGeneration()
	var errs []error
	bad := make(map[plan.Key]error)
	for _, f := range b.families {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("iptables: sync: %w", err)
		}
		if err := b.syncFamily(ctx, f, d, bad); err != nil {
			errs = append(errs, fmt.Errorf("iptables: sync %s: %w", f.ip, err))
		}
	}
	if len(errs) > 0 {
		return errors.Join(errs...)
	}
	b.base = d.New
	b.noteGeneration(before)
	if b.last.Failed = len(bad); len(bad) > 0 {
		return fmt.Errorf("iptables: sync: %w", &plan.PartialError{Ports: bad})
	}
	return nil
}

// start chooses the families.
func (b *Backend) start(ctx context.Context) error {
	if b.families != nil {
		return nil
	}
	var err error
	if b.nft, err = b.isNFT(ctx); err != nil {
		return fmt.Errorf("iptables: start: %w", err)
	}
	var errs []error
	for _, f := range b.wanted() {
		state := &familyState{family: f, untried: f.optional(b.opts)}
		if b.opts.Families == nil {
			text, err := b.runner.save(ctx, f, nat)
			if process.Broke(err) && !process.Missing(err) {
				b.families = nil // nothing is known of this family
				return fmt.Errorf("iptables: start: %s: %w", f.ip, err)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", f.ip, err))
				continue
			}
			state.saved = &text
		}
		b.families = append(b.families, state)
	}
	if len(b.families) == 0 {
		return fmt.Errorf("iptables: start: no usable family: %w", errors.Join(errs...))
	}
	return nil
}

// wanted returns the families that the options name, all if they name none.
func (b *Backend) wanted() []*family {
	return slices.DeleteFunc(families(), func(f *family) bool {
		return b.opts.Families != nil && !slices.Contains(b.opts.Families, f.ip)
	})
}

func (b *Backend) syncFamily(ctx context.Context, f *familyState, d *plan.Delta, bad map[plan.Key]error) error {
	if b.last.Full {
		if err := b.read(ctx, f); err != nil {
			return err
		}
	}
	next := newLayout(f.family, b.opts, d.New)
	if err := b.settleSysctls(f, next); err != nil {
		return err
	}
	changes, anew := d.Changes, b.last.Full || !f.model.equal(next)
	if anew {
		changes = all(d.New)
	}
	if err := b.tryOptional(ctx, f, changes); err != nil {
		return err
	}
	changes = f.writable(changes, bad)
	var r *revision
	if anew {
		f.model, r = build(next, changes)
		r.forget(&f.have)
	} else {
		r = f.model.change(changes)
	}
	suspects := f.altered()
	s := newScript(b.opts.Name, r, &f.have, b.last.Full)
	if err := b.restore(ctx, f, s); err != nil {
		return err
	}
	if err := b.lookAgain(ctx, f, suspects); err != nil {
		return err
	}
	return b.openLoopback(next)
}

// read finds out what the tables of a family have.
func (b *Backend) read(ctx context.Context, f *familyState) error {
	for t := range table(numTables) {
		text, err := b.save(ctx, f, t)
		if err != nil {
			return err
		}
		f.have[t] = f.parse(text, b.opts.Name)
	}
	return nil
}

// forgetSaved drops what start read: by the next round it is old.
func (b *Backend) forgetSaved() {
	for _, f := range b.families {
		f.saved = nil
	}
}

// save does not ask again for what start has just read.
func (b *Backend) save(ctx context.Context, f *familyState, t table) (string, error) {
	if saved := f.saved; t == nat && saved != nil {
		f.saved = nil
		return *saved, nil
	}
	return b.runner.save(ctx, f.family, t)
}

func (b *Backend) restore(ctx context.Context, f *familyState, s script) error {
	lines, commits := s.size()
	if lines == 0 {
		return nil
	}
	before := b.readGeneration()
	if err := b.runner.restore(ctx, f.family, s.text(), false); err != nil {
		return err
	}
	if before != 0 && before == b.readGeneration() {
		return errNothingWritten
	}
	b.last.Written += lines
	b.last.Commits += commits
	return nil
}
