package allocator

import (
	"context"
	"net/netip"
	"sync"

	"github.com/vipkit/vipkit/internal/ip"
)

func (s multiSource) DryRun(mode DryRunMode) Source[netip.Addr] {
	if mode == AsUpstream {
		return upstreamAddresses{s.upstream}
	}
	return &multiDryRun{multiSource: s, store: readOnly{s.store}, taken: map[netip.Addr]Owner{}}
}

// upstream answers for [upstreamAddresses]: from the first range that is ready.
func (s multiSource) upstream(addr netip.Addr) (netip.Addr, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.named(s.ipFamily)
	if addr.IsValid() {
		return addr, f.refusal("claim", addr)
	}
	for _, r := range f.ranges {
		if r.ready {
			return r.prefix.Addr(), nil
		}
	}
	return netip.Addr{}, &Error{Op: "pick", Value: string(s.ipFamily) + " address", Err: ErrNotReady}
}

// A multiDryRun is a truthful dry run.
type multiDryRun struct {
	multiSource
	store Store

	own   sync.Mutex
	taken map[netip.Addr]Owner
}

func (d *multiDryRun) Claim(ctx context.Context, addr netip.Addr, owner Owner) error {
	if ip.Family(addr) != d.ipFamily {
		return d.foreign(addr)
	}
	d.own.Lock()
	defer d.own.Unlock()
	if err := d.allowed(addr); err != nil {
		return err
	}
	if holder, ok := d.taken[addr]; ok {
		return &Error{Op: "claim", Value: addr.String(), Owner: holder, Err: ErrTaken}
	}
	if err := d.store.Create(ctx, addr, owner); err != nil {
		return storeError("claim", addr, err)
	}
	d.taken[addr] = owner
	return nil
}

func (d *multiDryRun) allowed(addr netip.Addr) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.family(addr).refusal("claim", addr)
}

// Pick draws while its own claims are marked as used.
func (d *multiDryRun) Pick(_ context.Context, owner Owner) (netip.Addr, error) {
	d.own.Lock()
	defer d.own.Unlock()
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.named(d.ipFamily)
	d.expire(f)
	for addr := range d.taken {
		if f.mark(addr) {
			defer f.unmark(addr)
		}
	}
	addr, err := d.draw(f, d.ipFamily)
	if err == nil {
		d.taken[addr] = owner
	}
	return addr, err
}

func (d *multiDryRun) Release(ctx context.Context, addr netip.Addr, owner Owner) error {
	d.own.Lock()
	defer d.own.Unlock()
	if holder, ok := d.taken[addr]; ok && holder.Same(owner) {
		delete(d.taken, addr)
		return nil
	}
	return d.store.Delete(ctx, addr, owner)
}

func (d *multiDryRun) DryRun(mode DryRunMode) Source[netip.Addr] { return d.multiSource.DryRun(mode) }
