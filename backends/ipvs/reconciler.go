package ipvs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/vipkit/vipkit/internal/bounded"
)

// A Reconciler makes virtual servers what they should be, one at a time, and drains real
// servers that go. It needs no Services: use it to balance, for instance, the API servers
// of a cluster. Other virtual servers of the machine are neither read nor changed.
//
// It is safe for concurrent use. It has no goroutine: call [Reconciler.Sweep] from time to
// time while something drains.
type Reconciler struct {
	kernel kernel
	limit  time.Duration

	mu       sync.Mutex
	draining map[ServerKey]*drain
}

// A drain is what goes away of one virtual server.
type drain struct {
	whole bool // the virtual server goes too
	real  map[netip.AddrPort]bool

	connectionless bool
}

// DefaultDrainTimeout is how long connections to a real server that is not wanted any more
// may go on.
const DefaultDrainTimeout = 15 * time.Minute

// NewReconciler returns a Reconciler on a Kernel, which the caller closes.
//
// DrainTimeout is how long connections to a real server that is not wanted any more may go
// on. Zero means [DefaultDrainTimeout]; a negative value disables draining.
func NewReconciler(k *Kernel, drainTimeout time.Duration) *Reconciler {
	return newReconciler(behind(k), drainTimeout)
}

func newReconciler(k kernel, drainTimeout time.Duration) *Reconciler {
	if drainTimeout == 0 {
		drainTimeout = DefaultDrainTimeout
	}
	return &Reconciler{kernel: k, limit: drainTimeout, draining: make(map[ServerKey]*drain)}
}

// Ensure makes a virtual server equal want: it reads the one that is there, changes in place
// what differs, and adds what is missing. Nothing that is right is written.
//
// Real servers that want does not have are removed at once if they have no connections or
// the virtual server is connectionless. Otherwise they get weight 0 and a deadline, and
// [Reconciler.Sweep] removes them. The kernel keeps the deadline, so a new process takes over
// where the old one ended. One that is wanted again gets its weight back, and its
// connections go on.
//
// After an error the virtual server may be half done; call Ensure again.
func (r *Reconciler) Ensure(ctx context.Context, want VirtualServer) error {
	want, err := want.normal()
	if err != nil {
		return fmt.Errorf("ipvs: ensure %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	have, err := r.read(want.ServerKey)
	if err != nil {
		return err
	}
	return r.ensure(ctx, have, &want)
}

// Get returns a virtual server with its real servers, those that drain included. The error
// is [fs.ErrNotExist] if there is none.
func (r *Reconciler) Get(k ServerKey) (VirtualServer, error) {
	have, err := r.read(k.normal())
	switch {
	case err != nil:
		return VirtualServer{}, err
	case have == nil:
		return VirtualServer{}, fmt.Errorf("ipvs: get virtual server %s: %w", k, fs.ErrNotExist)
	}
	return *have, nil
}

// read returns nil if there is no such virtual server.
func (r *Reconciler) read(k ServerKey) (*VirtualServer, error) {
	have, err := r.kernel.Server(k)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing there is an answer
	}
	if err != nil {
		return nil, err
	}
	have.Real, err = r.realServers(k)
	return &have, err
}

func (r *Reconciler) realServers(k ServerKey) ([]RealServer, error) {
	found, err := r.kernel.RealServers(k)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	slices.SortFunc(found, compareReal)
	return found, nil
}

// Drain takes all real servers of a virtual server out of service as Ensure does, and then
// the virtual server itself, at once if nothing is connected. It returns whether it is gone.
// New clients meet no real server meanwhile. One that is not there is gone.
func (r *Reconciler) Drain(ctx context.Context, k ServerKey) (gone bool, err error) {
	k = k.normal()
	r.mu.Lock()
	defer r.mu.Unlock()
	have, err := r.read(k)
	if err != nil {
		return false, err
	}
	return r.drain(ctx, have, k)
}

// Remove removes a virtual server with its real servers now; connections are cut. One that
// is not there is no error.
func (r *Reconciler) Remove(k ServerKey) error {
	k = k.normal()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.remove(k)
}

func (r *Reconciler) remove(k ServerKey) error {
	if err := r.kernel.DeleteServer(k); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	delete(r.draining, k)
	return nil
}

// Sweep removes what has drained or whose time is up, and returns how many real servers are
// left. It asks the kernel only about virtual servers that have some. Once a minute is
// often enough. What somebody else removed meanwhile counts as done.
func (r *Reconciler) Sweep(ctx context.Context) (left int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var errs []error
	for _, k := range slices.SortedFunc(maps.Keys(r.draining), ServerKey.Compare) {
		if err := ctx.Err(); err != nil {
			errs = append(errs, fmt.Errorf("ipvs: sweep: %w", err))
			break
		}
		if err := r.sweep(ctx, k); err != nil {
			errs = append(errs, err)
		}
	}
	for _, d := range r.draining {
		left += len(d.real)
	}
	return left, bounded.Join(errs...)
}

func (r *Reconciler) sweep(ctx context.Context, k ServerKey) error {
	d := r.draining[k]
	found, err := r.realServers(k)
	if err != nil {
		return err
	}
	have := VirtualServer{ServerKey: k, Connectionless: d.connectionless, Real: found}
	if d.whole {
		_, err := r.drain(ctx, &have, k)
		return err
	}
	going := slices.DeleteFunc(found, func(s RealServer) bool { return !d.real[s.Addr] })
	return r.retire(ctx, &have, going)
}
