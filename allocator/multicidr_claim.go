package allocator

import (
	"context"
	"errors"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/ip"
)

// Claim makes owner the holder of addr. It returns an [*Error] that wraps
// [ErrTaken], also if owner holds it already, [ErrOutOfRange], [ErrNotReady] or
// [ErrNoRange], or the error of the store; the address is then not claimed, as
// far as the store says.
func (m *MultiCIDR) Claim(ctx context.Context, addr netip.Addr, owner Owner) error {
	return m.observe(Static, m.claim(ctx, addr, owner))
}

func (m *MultiCIDR) claim(ctx context.Context, addr netip.Addr, owner Owner) error {
	c, err := m.announce(addr, owner)
	if err != nil {
		return err
	}
	return m.create(ctx, "claim", addr, c)
}

// announce marks addr as on its way, unless no range allows it.
func (m *MultiCIDR) announce(addr netip.Addr, owner Owner) (*creation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.family(addr)
	m.expire(f)
	if err := f.refusal("claim", addr); err != nil {
		return nil, err
	}
	return f.begin(addr, owner), nil
}

// create makes the entry of addr, which c marks, in the store, and settles the
// mark by the answer. After a panic of the store the address is as before.
func (m *MultiCIDR) create(ctx context.Context, op string, addr netip.Addr, c *creation) error {
	defer m.settle(addr, c)
	err := m.store.Create(ctx, addr, c.owner)
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.family(addr)
	switch {
	case err == nil && c.shown: // what the watch has told since is newer
		return nil
	case err == nil:
		f.learn(addr, known{owner: c.owner})
		return nil
	case !errors.Is(err, ErrTaken):
		return storeError(op, addr, err)
	}
	var holder Owner
	k, ok := f.known[addr]
	if e := (*Error)(nil); errors.As(err, &e) {
		holder = e.Owner
	}
	switch {
	case !ok, k.state != held:
		f.doubt(addr, known{state: collided, owner: holder}, m.opts.Now().Add(collisionTime))
	case holder == (Owner{}):
		holder = k.owner
	}
	return &Error{Op: op, Value: addr.String(), Owner: holder, Err: ErrTaken}
}

// settle ends the mark of c.
func (m *MultiCIDR) settle(addr netip.Addr, c *creation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.family(addr).end(addr, c)
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
		addr, c, err := m.choose(ipFamily, owner)
		if err != nil {
			return netip.Addr{}, err
		}
		err = m.create(ctx, "pick", addr, c)
		if err == nil {
			return addr, nil
		}
		// The address stays marked as used, so the search ends.
		if !errors.Is(err, ErrTaken) {
			return netip.Addr{}, err
		}
	}
}

// choose draws a free address and marks it as on its way.
func (m *MultiCIDR) choose(ipFamily corev1.IPFamily, owner Owner) (netip.Addr, *creation, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f := m.named(ipFamily)
	m.expire(f)
	addr, err := m.draw(f, ipFamily)
	if err != nil {
		return netip.Addr{}, nil, err
	}
	return addr, f.begin(addr, owner), nil
}

// draw returns a free address of f; mu must be held.
func (m *MultiCIDR) draw(f *family, ipFamily corev1.IPFamily) (netip.Addr, error) {
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
	r := m.beginRemoval(addr, owner)
	defer m.endRemoval(addr, r)
	if err := m.store.Delete(ctx, addr, owner); err != nil {
		return storeError("release", addr, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !r.overtaken { // else somebody has taken it since
		m.forget(addr)
	}
	return nil
}

func (m *MultiCIDR) beginRemoval(addr netip.Addr, owner Owner) *removal {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.family(addr).beginRemoval(addr, owner)
}

func (m *MultiCIDR) endRemoval(addr netip.Addr, r *removal) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.family(addr).endRemoval(addr, r)
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
	if ip.Family(addr) != s.ipFamily {
		return s.foreign(addr)
	}
	return s.MultiCIDR.Claim(ctx, addr, owner)
}

// foreign returns the error for an address of the other family.
func (s multiSource) foreign(addr netip.Addr) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Error{Op: "claim", Value: addr.String(), Ranges: s.named(s.ipFamily).prefixes(), Err: ErrOutOfRange}
}

func (s multiSource) Pick(ctx context.Context, owner Owner) (netip.Addr, error) {
	return s.MultiCIDR.Pick(ctx, s.ipFamily, owner)
}
