package allocator

import (
	"context"
	"errors"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// Claim makes owner the holder of addr. It returns an [*Error] that wraps
// [ErrTaken], also if owner holds it already, [ErrOutOfRange], [ErrNotReady] or
// [ErrNoRange], or the error of the store; the address is then not claimed, as
// far as the store says.
func (m *MultiCIDR) Claim(ctx context.Context, addr netip.Addr, owner Owner) error {
	return m.observe(Static, m.claim(ctx, addr, owner))
}

func (m *MultiCIDR) claim(ctx context.Context, addr netip.Addr, owner Owner) error {
	if err := m.announce(addr, owner); err != nil {
		return err
	}
	return m.create(ctx, "claim", addr, owner)
}

// announce marks addr as on its way, unless no range allows it.
func (m *MultiCIDR) announce(addr netip.Addr, owner Owner) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.family(addr)
	if err := f.refusal("claim", addr); err != nil {
		return err
	}
	if k, ok := f.held[addr]; !ok || k.state == cooling || k.state == collided {
		f.hold(addr, known{state: pending, owner: owner})
	}
	return nil
}

// create makes the entry of addr, which is marked, in the store, and settles
// the mark by the answer.
func (m *MultiCIDR) create(ctx context.Context, op string, addr netip.Addr, owner Owner) error {
	err := m.store.Create(ctx, addr, owner)
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.family(addr)
	k, ok := f.held[addr]
	ours := ok && k.state == pending && k.owner == owner
	switch {
	case err == nil:
		f.hold(addr, known{owner: owner})
		return nil
	case !errors.Is(err, ErrTaken):
		if ours {
			f.drop(addr)
		}
		return storeError(op, addr, err)
	}
	if ours || !ok {
		k = known{state: collided, until: m.opts.Now().Add(collisionTime)}
		if e := (*Error)(nil); errors.As(err, &e) {
			k.owner = e.Owner
		}
		f.hide(addr, k)
	}
	return &Error{Op: op, Value: addr.String(), Owner: k.owner, Err: ErrTaken}
}

// Pick makes owner the holder of a free address. If the store says that an
// address is taken, another one is drawn, and each one is tried once; any other
// error of the store ends the search. Pick returns an [*Error] that wraps
// [ErrFull], [ErrNotReady], [ErrNoRange], or the error of the store.
func (m *MultiCIDR) Pick(ctx context.Context, ipFamily corev1.IPFamily, owner Owner) (netip.Addr, error) {
	addr, err := m.pick(ctx, ipFamily, owner)
	return addr, m.observe(Dynamic, err)
}

func (m *MultiCIDR) pick(ctx context.Context, ipFamily corev1.IPFamily, owner Owner) (netip.Addr, error) {
	for {
		addr, err := m.mark(ipFamily, owner)
		if err != nil {
			return netip.Addr{}, err
		}
		err = m.create(ctx, "pick", addr, owner)
		if err == nil {
			return addr, nil
		}
		// The address stays marked as used, so the search ends.
		if !errors.Is(err, ErrTaken) {
			return netip.Addr{}, err
		}
	}
}

// mark draws a free address and marks it as on its way.
func (m *MultiCIDR) mark(ipFamily corev1.IPFamily, owner Owner) (netip.Addr, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	addr, err := m.draw(ipFamily)
	if err != nil {
		return netip.Addr{}, err
	}
	m.family(addr).hold(addr, known{state: pending, owner: owner})
	return addr, nil
}

// draw returns a free address; mu must be held.
func (m *MultiCIDR) draw(ipFamily corev1.IPFamily) (netip.Addr, error) {
	f := m.families[ipFamily]
	if f == nil {
		f = newFamily()
	}
	f.expire(m.opts.Now())
	addr, err := f.pick(m.random)
	if err != nil {
		return netip.Addr{}, &Error{Op: "pick", Value: string(ipFamily) + " address", Err: err}
	}
	return addr, nil
}

// random returns a number below n.
func (m *MultiCIDR) random(n uint64) uint64 {
	if m.opts.Lowest {
		return 0
	}
	return m.opts.Rand(n) % n
}

// Release removes the entry of addr from the store if owner holds it, also if no
// range has it any more. No entry is no error. Otherwise it returns an error that
// wraps [ErrNotOwner] or that of the store, and nothing has changed.
func (m *MultiCIDR) Release(ctx context.Context, addr netip.Addr, owner Owner) error {
	if err := m.store.Delete(ctx, addr, owner); err != nil {
		return storeError("release", addr, err)
	}
	m.Forget(addr)
	return nil
}

func (m *MultiCIDR) observe(scope Band, err error) error {
	if m.opts.Observe != nil {
		m.opts.Observe(scope, err)
	}
	return err
}

// Source returns m as a source of addresses of one family. Claims of the other
// family are out of range.
func (m *MultiCIDR) Source(ipFamily corev1.IPFamily) Source[netip.Addr] {
	return multiSource{m, ipFamily}
}

type multiSource struct {
	*MultiCIDR
	ipFamily corev1.IPFamily
}

func (s multiSource) Claim(ctx context.Context, addr netip.Addr, owner Owner) error {
	if familyOf(addr) != s.ipFamily {
		return s.foreign(addr)
	}
	return s.MultiCIDR.Claim(ctx, addr, owner)
}

// foreign returns the error for an address of the other family.
func (s multiSource) foreign(addr netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Error{Op: "claim", Value: addr.String(), Ranges: s.families[s.ipFamily].prefixes(), Err: ErrOutOfRange}
}

func (s multiSource) Pick(ctx context.Context, owner Owner) (netip.Addr, error) {
	return s.MultiCIDR.Pick(ctx, s.ipFamily, owner)
}

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
	f := s.families[s.ipFamily]
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
	if familyOf(addr) != d.ipFamily {
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
	f := d.families[d.ipFamily]
	var marked []netip.Addr
	for addr := range d.taken {
		if _, ok := f.held[addr]; !ok {
			f.hold(addr, known{})
			marked = append(marked, addr)
		}
	}
	addr, err := d.draw(d.ipFamily)
	for _, a := range marked {
		f.drop(a)
	}
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
