package allocator

import (
	"context"
	"fmt"
	"net/netip"
)

// A Source is where a transaction takes values from: addresses of one family
// ([netip.Addr]) or ports (uint16). [Pool.Source], [PortPool.Source],
// [MultiCIDR.Source] and [WithStore] return one; programs can write their own.
//
// A Source is safe for concurrent use. Its errors wrap those of this package
// where they apply; after an error nothing has changed.
type Source[T any] interface {
	// Claim gives value to owner if nobody has it, not even owner itself: two
	// attempts for one Service must not both believe that they hold it.
	Claim(ctx context.Context, value T, owner Owner) error

	// Pick gives a free value to owner.
	Pick(ctx context.Context, owner Owner) (T, error)

	// Release frees value if owner has it. A value that nobody has is no error.
	Release(ctx context.Context, value T, owner Owner) error

	// DryRun returns a Source that answers as this one would, and changes
	// nothing but itself: it remembers its own claims. It is for one transaction.
	DryRun(mode DryRunMode) Source[T]
}

// DryRunMode says how honest a dry run is.
type DryRunMode uint8

const (
	// Truthful dry runs check claims against what is really held, and pick values
	// that are really free, without taking them.
	Truthful DryRunMode = iota

	// AsUpstream dry runs answer as API servers do. For addresses: a claim is
	// checked against the range only, and a pick is the network address. For
	// ports: a claim is checked against what is held but not against the range,
	// and a pick is one more than the greatest claim, or 32769.
	AsUpstream
)

// Source returns p as a Source. Its methods do not use their context.
func (p *Pool) Source() Source[netip.Addr] { return poolSource{p} }

// Source returns p as a Source. Its methods do not use their context.
func (p *PortPool) Source() Source[uint16] { return portSource{p} }

// A noSource stands for a source that there is not.
type noSource[T any] struct{}

func (noSource[T]) Claim(_ context.Context, value T, _ Owner) error {
	return &Error{Op: "claim", Value: fmt.Sprint(value), Err: ErrNoRange}
}

func (noSource[T]) Pick(context.Context, Owner) (T, error) {
	var none T
	return none, &Error{Op: "pick", Value: "a value", Err: ErrNoRange}
}

func (noSource[T]) Release(context.Context, T, Owner) error { return nil }

func (s noSource[T]) DryRun(DryRunMode) Source[T] { return s }

type poolSource struct{ pool *Pool }

func (s poolSource) Claim(_ context.Context, addr netip.Addr, owner Owner) error {
	return s.pool.Claim(addr, owner)
}

func (s poolSource) Pick(_ context.Context, owner Owner) (netip.Addr, error) {
	return s.pool.Pick(owner)
}

func (s poolSource) Release(_ context.Context, addr netip.Addr, owner Owner) error {
	return s.pool.Release(addr, owner)
}

func (s poolSource) DryRun(mode DryRunMode) Source[netip.Addr] {
	if mode == AsUpstream {
		return upstreamAddresses{func(addr netip.Addr) (netip.Addr, error) { return s.pool.upstream(addr) }}
	}
	return newDryRun(&s.pool.ledger)
}

type portSource struct{ pool *PortPool }

func (s portSource) Claim(_ context.Context, port uint16, owner Owner) error {
	return s.pool.Claim(port, owner)
}

func (s portSource) Pick(_ context.Context, owner Owner) (uint16, error) {
	return s.pool.Pick(owner)
}

func (s portSource) Release(_ context.Context, port uint16, owner Owner) error {
	return s.pool.Release(port, owner)
}

func (s portSource) DryRun(mode DryRunMode) Source[uint16] {
	if mode == AsUpstream {
		return &upstreamPorts{pool: s.pool}
	}
	return newDryRun(&s.pool.ledger)
}
