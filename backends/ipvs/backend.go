package ipvs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/engine"
	"github.com/vipkit/vipkit/proxy/plan"
)

var (
	_ backends.Backend  = (*Backend)(nil)
	_ backends.Checker  = (*Backend)(nil)
	_ backends.Prober   = (*Backend)(nil)
	_ backends.Preparer = (*Backend)(nil)
	_ backends.Sweeper  = (*Backend)(nil)
	_ backends.Warner   = (*Backend)(nil)
)

// A Backend programs the IPVS of the network namespace in which its methods are called,
// which must always be the same. Its methods may be called from several goroutines.
type Backend struct {
	mu      sync.Mutex
	dialect *dialect
	engine  *engine.Engine[id, value]
	handle  *Kernel // to be closed by Close, nil before the first use
	known   bool    // the last Sync left a known state

	statsMu sync.Mutex
	last    backends.Stats
}

// New returns a Backend. It reads and writes nothing. Where there is no IPVS at all, on other
// systems than Linux, the error is [errors.ErrUnsupported].
func New(opts Options) (*Backend, error) {
	if err := supported(); err != nil {
		return nil, err
	}
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return newBackend(newDialect(opts, newLinks(opts.Name))), nil
}

func newBackend(d *dialect) *Backend {
	return &Backend{dialect: d, engine: engine.New(d, engine.Options{Name: "ipvs"})}
}

// open gets hold of IPVS and nft.
func (b *Backend) open(ctx context.Context) error {
	return errors.Join(b.openKernel(), b.dialect.openTable(ctx))
}

func (b *Backend) openKernel() error {
	if b.dialect.kernel != nil {
		return nil
	}
	k, err := Open()
	if err != nil {
		return err
	}
	b.handle = k
	b.dialect.use(behind(k))
	return nil
}

// Close gives back the connection to the kernel, which other methods open again. Nothing in the kernel changes.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.dialect.kernel = nil
	k := b.handle
	b.handle = nil
	return k.Close()
}

// LastStats returns what the last Sync did. Written counts virtual servers together with what the table says of them, bound addresses
// and other elements of the table.
func (b *Backend) LastStats() backends.Stats {
	b.statsMu.Lock()
	defer b.statsMu.Unlock()
	return b.last
}

// Sync makes virtual servers, addresses and the nftables table equal d.New.
//
// If d is not Full, and d.Base is what the Backend committed last, it reads
// only the real servers of the virtual servers that change. Otherwise it reads everything that is ours, and replaces the table in one transaction.
//
// Virtual servers by mark come first, then what refuses new packets, addresses and the other
// virtual servers, and what is not needed any more goes last. A Service port whose scheduler the kernel lacks, or that the kernel refuses, is
// reported in a [plan.PartialError] and stays as it was. After any other error the state
// is between the old and the new one, and the next Sync reads it.
//
// Sync also does what [Backend.Sweep] does.
func (b *Backend) Sync(ctx context.Context, d *plan.Delta) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	start := time.Now()
	s, err := b.sync(ctx, d)
	s.Duration = time.Since(start)
	b.report(ctx, s, err)
	return err
}

func (b *Backend) sync(ctx context.Context, d *plan.Delta) (backends.Stats, error) {
	b.known = false
	if err := b.open(ctx); err != nil {
		return backends.Stats{}, fmt.Errorf("ipvs: sync: %w", err)
	}
	b.dialect.mode = syncing
	err := b.engine.Sync(ctx, d)
	s := b.engine.LastStats()
	var partial *plan.PartialError
	if err == nil || errors.As(err, &partial) {
		var failed error
		if s.Draining, failed = b.dialect.sweep(ctx); failed != nil {
			err = fmt.Errorf("ipvs: sync: %w", failed)
		}
		b.known = failed == nil
	}
	return s, err
}

func (b *Backend) report(ctx context.Context, s backends.Stats, err error) {
	b.statsMu.Lock()
	b.last = s
	b.statsMu.Unlock()
	opts := &b.dialect.opts
	if opts.OnSync != nil {
		opts.OnSync(s)
	}
	if opts.Logger != nil {
		opts.Logger.LogAttrs(ctx, slog.LevelDebug, "ipvs sync", slog.Any("stats", s), slog.Any("error", err))
	}
}

// Sweep removes endpoints whose connections have ended or whose time is up, and what of a
// deleted Service had to wait for them. It returns how many endpoints are left. Sync calls
// it; see [backends.Sweeper].
func (b *Backend) Sweep(ctx context.Context) (left int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.known {
		return 0, nil // the next Sync does it
	}
	if err = b.open(ctx); err == nil {
		left, err = b.dialect.sweep(ctx)
	}
	if err != nil {
		b.known = false
		return left, fmt.Errorf("ipvs: sweep: %w", err)
	}
	return left, nil
}

// Cleanup removes the virtual servers, the table and the routes that any Backend with the same
// options ever made, and nothing else. Connections through them are cut. A kernel without IPVS has no
// virtual servers.
func (b *Backend) Cleanup(ctx context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.known = false
	err := b.dialect.openTable(ctx)
	if err == nil {
		if err = b.openKernel(); errors.Is(err, errors.ErrUnsupported) {
			err = nil
		}
	}
	if err != nil {
		return fmt.Errorf("ipvs: clean up: %w", err)
	}
	b.dialect.mode = cleaning
	if err := b.engine.Cleanup(ctx); err != nil {
		return err
	}
	if err := b.dialect.removeTable(ctx); err != nil {
		return fmt.Errorf("ipvs: clean up: %w", err)
	}
	return nil
}
