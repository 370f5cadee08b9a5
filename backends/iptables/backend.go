package iptables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/engine"
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

	families   []tables   // in use; nil before the first Sync
	nft        bool       // the programs write nftables
	base       *plan.Plan // what the tables hold, nil if that is not known
	generation uint32     // of nftables when the tables were as they should be, 0 if unknown
	last       backends.Stats
}

// tables are those of one family. Each has an engine of its own, so that one that fails does not keep the other back.
type tables struct {
	dialect *dialect
	engine  *engine.Engine[id, content]
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
// A Service port that the programs or the kernel do not take, such as one with SCTP where that
// is missing, is reported in a [plan.PartialError] and stays as it was, but for what other ports get of it. To find it out costs a
// few programs for each. After any other
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
	b.last.Changes = len(d.Changes)
	before := b.readGeneration()
	var errs []error
	bad := make(map[plan.Key]error)
	for _, f := range b.families {
		f.dialect.sure = before != 0 && before == b.generation
		err := b.syncFamily(ctx, f, d)
		var partial *plan.PartialError
		switch {
		case errors.As(err, &partial):
			maps.Copy(bad, partial.Ports)
		case err != nil:
			errs = append(errs, err)
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

func (b *Backend) syncFamily(ctx context.Context, f tables, d *plan.Delta) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("iptables %s: sync: %w", f.dialect.ip, err)
	}
	defer func() { f.dialect.saved = nil }() // by the next round it is old
	f.dialect.lines, f.dialect.commits = 0, 0
	if err := b.tryOptional(ctx, f.dialect, d.Changes); err != nil {
		return fmt.Errorf("iptables %s: sync: %w", f.dialect.ip, err)
	}
	err := f.engine.Sync(ctx, d)
	if err != nil && f.dialect.doubtful {
		err = f.engine.Sync(ctx, d) // which reads the tables now
	}
	f.dialect.doubtful = false
	b.last.Full = b.last.Full || f.engine.LastStats().Full
	b.last.Written += f.dialect.lines
	b.last.Commits += f.dialect.commits
	if again := f.dialect.lookAgain(ctx); again != nil && err == nil {
		err = again
	}
	return err
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
		next := newDialect(f, b.opts)
		next.runner, next.kernel, next.generation = b.runner, b.kernel, b.readGeneration
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
			next.saved = &text
		}
		b.families = append(b.families, tables{next, engine.New(next, engine.Options{Name: "iptables " + string(f.ip)})})
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
