package allocator

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"
)

// A dryRun is a truthful dry run over a ledger.
type dryRun[T any] struct {
	ledger *ledger[T]

	mu    sync.Mutex
	taken map[uint64]Owner // claimed by the dry run itself
}

func newDryRun[T any](l *ledger[T]) *dryRun[T] {
	return &dryRun[T]{ledger: l, taken: map[uint64]Owner{}}
}

func (d *dryRun[T]) Claim(_ context.Context, value T, owner Owner) error {
	n, ok := d.ledger.kind.number(value)
	if !ok {
		return d.ledger.outOfRange("claim", value)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	holder, taken := d.taken[n]
	if taken {
		return d.ledger.wrap("claim", value, holder, ErrTaken)
	}
	if holder, err := d.ledger.check(n); err != nil {
		return d.ledger.wrap("claim", value, holder, err)
	}
	d.taken[n] = owner
	return nil
}

func (d *dryRun[T]) Pick(_ context.Context, owner Owner) (T, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.ledger.peek(slices.Collect(maps.Keys(d.taken)))
	if err != nil {
		var none T
		return none, &Error{Op: "pick", Value: d.ledger.text, Err: err}
	}
	d.taken[n] = owner
	return d.ledger.kind.at(n), nil
}

func (d *dryRun[T]) Release(_ context.Context, value T, owner Owner) error {
	n, ok := d.ledger.kind.number(value)
	if !ok {
		return nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	holder, taken := d.taken[n]
	if !taken {
		var held bool
		if holder, held = d.ledger.owner(n); !held {
			return nil
		}
	}
	if !holder.Same(owner) {
		return d.ledger.wrap("release", value, holder, ErrNotOwner)
	}
	delete(d.taken, n)
	return nil
}

func (d *dryRun[T]) DryRun(DryRunMode) Source[T] { return newDryRun(d.ledger) }

// check returns why n could not be claimed.
func (b *book) check(n uint64) (Owner, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, ok := b.excluded[n]; ok {
		return Owner{}, ErrReserved
	}
	if b.held(n) {
		return b.owners[n], ErrTaken
	}
	return Owner{}, nil
}

// peek draws a free number that is not in except, and takes nothing.
func (b *book) peek(except []uint64) (uint64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.expire()
	hidden := except[:0]
	defer func() { // also if the user's source of random numbers panics
		for _, n := range hidden {
			b.set.remove(n)
			b.band(n).Free++
		}
	}()
	for _, n := range except {
		if b.set.add(n) {
			b.band(n).Free--
			hidden = append(hidden, n)
		}
	}
	return b.draw()
}

// upstreamAddresses is a dry run as API servers do it. With a valid address,
// answer says whether it is in range; without, it returns the network address.
type upstreamAddresses struct {
	answer func(netip.Addr) (netip.Addr, error)
}

func (u upstreamAddresses) Claim(_ context.Context, addr netip.Addr, _ Owner) error {
	_, err := u.answer(addr)
	return err
}

func (u upstreamAddresses) Pick(context.Context, Owner) (netip.Addr, error) {
	return u.answer(netip.Addr{})
}

func (u upstreamAddresses) Release(context.Context, netip.Addr, Owner) error { return nil }

func (u upstreamAddresses) DryRun(DryRunMode) Source[netip.Addr] { return u }

// upstream answers for [upstreamAddresses].
func (p *Pool) upstream(addr netip.Addr) (netip.Addr, error) {
	if !addr.IsValid() {
		if prefix, err := netip.ParsePrefix(p.ledger.text); err == nil {
			return prefix.Addr(), nil
		}
		return p.ledger.kind.at(0), nil
	}
	if _, ok := p.ledger.kind.number(addr); !ok {
		return netip.Addr{}, p.ledger.outOfRange("claim", addr)
	}
	return addr, nil
}

// upstreamPorts is a dry run as API servers do it.
type upstreamPorts struct {
	pool *PortPool

	mu    sync.Mutex
	taken []uint16
}

// upstreamFirstPick is the first port that a dry run of an API server picks: two
// more than the last port of the default range.
const upstreamFirstPick = 32769

func (u *upstreamPorts) Claim(_ context.Context, port uint16, _ Owner) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.pool.Has(port) || slices.Contains(u.taken, port) {
		return u.pool.ledger.wrap("claim", port, Owner{}, ErrTaken)
	}
	u.taken = append(u.taken, port)
	return nil
}

func (u *upstreamPorts) Pick(context.Context, Owner) (uint16, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	port := uint16(upstreamFirstPick)
	if len(u.taken) > 0 {
		port = slices.Max(u.taken) + 1
	}
	if port == 0 {
		return 0, &Error{Op: "pick", Value: u.pool.ledger.text, Err: ErrFull}
	}
	u.taken = append(u.taken, port)
	return port, nil
}

func (u *upstreamPorts) Release(context.Context, uint16, Owner) error { return nil }

func (u *upstreamPorts) DryRun(DryRunMode) Source[uint16] { return &upstreamPorts{pool: u.pool} }
