package ipvs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends"
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
	opts  Options
	links links

	mu         sync.Mutex
	kernel     *counter // nil before the first use
	ownKernel  bool     // to be closed by Close
	reconciler *Reconciler
	nft        knftables.Interface // nil before the first use
	schedulers map[string]error    // those that were tried
	last       backends.Stats

	base *plan.Plan // what is in place; nil if that is not known
	node *node      // of base
	state
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
	return newBackend(opts, newLinks(opts.Name)), nil
}

func newBackend(opts Options, l links) *Backend {
	return &Backend{opts: opts, links: l, schedulers: make(map[string]error)}
}

// open gets hold of IPVS and nft.
func (b *Backend) open(ctx context.Context) error {
	return errors.Join(b.openKernel(), b.openTable(ctx))
}

func (b *Backend) openKernel() error {
	if b.kernel != nil {
		return nil
	}
	k := b.opts.Kernel
	if k == nil {
		var err error
		if k, err = Open(); err != nil {
			return err
		}
		b.ownKernel = true
	}
	b.kernel = &counter{Kernel: k}
	b.reconciler = NewReconciler(b.kernel, b.opts.DrainTimeout)
	return nil
}

func (b *Backend) openTable(ctx context.Context) error {
	if b.nft != nil {
		return nil
	}
	nft, err := openNFT(ctx, b.opts.Name)
	if err != nil {
		return err
	}
	b.nft = nft
	return nil
}

// Close gives back the connection to the kernel, if the Backend opened one. Nothing in the
// kernel changes.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := b.kernel
	b.kernel, b.base = nil, nil
	if k == nil || !b.ownKernel {
		return nil
	}
	return k.Kernel.Close()
}

// LastStats returns what the last Sync did. Written counts requests that changed IPVS, addresses that were bound or
// unbound, and nft statements.
func (b *Backend) LastStats() backends.Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.last
}

// Sync makes virtual servers, addresses and the nftables table equal d.New.
//
// If d is neither Full nor Config, and d.Base is what the Backend committed last, it reads
// only the real servers of the virtual servers that change. Otherwise it lists all virtual
// servers once, reads the real servers of ours, and replaces the table in one transaction.
//
// Virtual servers by mark come first, then what refuses new packets, addresses and the other
// virtual servers, and what is not needed any more goes last. A Service port whose scheduler the kernel lacks is
// reported in a [plan.PartialError] and stays as it was. After any other error the state
// is between the old and the new one, and the next Sync reads it.
//
// Sync also does what [Backend.Sweep] does.
func (b *Backend) Sync(ctx context.Context, d *plan.Delta) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	start := time.Now()
	b.last = backends.Stats{}
	err := b.sync(ctx, d)
	var partial *plan.PartialError
	if err != nil && !errors.As(err, &partial) {
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
		b.opts.Logger.LogAttrs(ctx, slog.LevelDebug, "ipvs sync", slog.Any("", b.last), slog.Any("error", err))
	}
}

func (b *Backend) sync(ctx context.Context, d *plan.Delta) error {
	if err := b.open(ctx); err != nil {
		return fmt.Errorf("ipvs: sync: %w", err)
	}
	before := b.kernel.changes
	r := &round{Backend: b, ctx: ctx, bad: make(map[plan.Key]error)}
	b.last.Full = d.Full || d.Config || b.base == nil || d.Base != b.base
	var err error
	if b.last.Full {
		err = r.adopt(d.New)
	} else {
		err = r.change(d)
	}
	if err == nil {
		b.last.Draining, err = r.sweep()
	}
	b.last.Written += b.kernel.changes - before
	b.last.Commits += b.kernel.changes - before
	b.last.Failed = len(r.bad)
	if err != nil {
		return fmt.Errorf("ipvs: sync: %w", err)
	}
	b.base = d.New
	if len(r.bad) > 0 {
		return fmt.Errorf("ipvs: sync: %w", &plan.PartialError{Ports: r.bad})
	}
	return nil
}

// Sweep removes endpoints whose connections have ended or whose time is up, and what of a
// deleted Service had to wait for them. It returns how many endpoints are left. Sync calls
// it; proxy.Proxy.Run calls it too, for times without changes.
func (b *Backend) Sweep(ctx context.Context) (left int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.base == nil {
		return 0, nil // the next Sync does it
	}
	left, err = (&round{Backend: b, ctx: ctx}).sweep()
	if err != nil {
		b.base = nil
		return left, fmt.Errorf("ipvs: sweep: %w", err)
	}
	return left, nil
}

// try finds out whether the kernel has a scheduler, once for each: by a virtual server at an
// address for documentation, which is removed at once.
func (b *Backend) try(scheduler string) error {
	if err, tried := b.schedulers[scheduler]; tried {
		return err
	}
	probe := VirtualServer{ServerKey: ServerKey{
		Addr: netip.MustParseAddrPort("198.51.100.0:20000"), Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol,
	}, Scheduler: scheduler}
	err := b.kernel.AddServer(probe)
	if errors.Is(err, fs.ErrExist) { // left by a process that was killed here
		err = b.kernel.SetServer(probe)
	}
	if err == nil {
		err = b.kernel.DeleteServer(probe.ServerKey)
	}
	if err == nil || errors.Is(err, errors.ErrUnsupported) {
		b.schedulers[scheduler] = err
	}
	return err
}
