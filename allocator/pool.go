package allocator

import (
	"fmt"
	"iter"
	"net/netip"
)

// A Pool hands out the addresses of one range.
//
// It needs a constructor: [NewPool], [NewBitmapPool], [NewEdgePool] or
// [NewRangePool]. A Pool is safe for concurrent use and must not be copied. Its
// lock is held for less than a microsecond per operation, except where a
// method says otherwise.
//
// A range of up to 2^24 addresses takes 1/8 byte per address, a larger one about
// 40 bytes per run of used addresses. Each address with an owner takes about 100
// bytes more.
type Pool struct {
	ledger ledger[netip.Addr]
}

// NewPool returns an empty pool with the addresses of a ServiceCIDR. The network
// address is not one of them, nor is the last address of an IPv4 prefix; all
// others are, including those that end in .0 or .255.
//
// Host bits of prefix are ignored. It returns an [*Error] if prefix is not valid,
// is wider than /64, or if no address follows its network address.
func NewPool(prefix netip.Prefix, opts Options) (*Pool, error) {
	r, err := newPrefixRange(prefix)
	return poolOf(r, err, opts)
}

// NewBitmapPool returns an empty pool with those addresses of prefix that a
// RangeAllocation object can hold, as API servers before Kubernetes 1.34 use
// them: IPv6 prefixes of any length, of which the first 65,535 addresses are
// usable, and no address of IPv4 prefixes wider than /2.
func NewBitmapPool(prefix netip.Prefix, opts Options) (*Pool, error) {
	r, err := newBitmapRange(prefix)
	return poolOf(r, err, opts)
}

// NewEdgePool returns an empty pool with all addresses of prefix, also the first
// and the last, as load balancers want it; a /32 has one address. IPv6 prefixes
// must be longer than /64.
func NewEdgePool(prefix netip.Prefix, opts Options) (*Pool, error) {
	r, err := newEdgeRange(prefix)
	return poolOf(r, err, opts)
}

// poolOf returns the pool of r, or what kept r from being made.
func poolOf(r prefixRange, err error, opts Options) (*Pool, error) {
	if err != nil {
		return nil, err
	}
	return &Pool{ledger[netip.Addr]{
		book: newBook(r.span.size, r.offset, opts), kind: r.span, text: r.prefix.String(), bits: r.bits,
	}}, nil
}

// NewRangePool returns an empty pool with the addresses from first to last, both
// included. The two must be of one family and without zone.
func NewRangePool(first, last netip.Addr, opts Options) (*Pool, error) {
	text := fmt.Sprintf("%s-%s", first, last)
	s, err := newSpan(first, last)
	if err != nil {
		return nil, &Error{Op: "new", Value: text, Err: err}
	}
	b := newBook(s.size, addressOffset(s.size, s.size), opts)
	return &Pool{ledger[netip.Addr]{book: b, kind: s, text: text}}, nil
}

// Range returns the range as text: a canonical prefix, or "first-last".
func (p *Pool) Range() string { return p.ledger.text }

// Claim gives addr to owner if nobody has it, in whichever band it is and also
// when it is quarantined. It returns an [*Error] that wraps [ErrTaken], also if
// owner has the address already, [ErrOutOfRange] or [ErrReserved]; the pool is
// then unchanged.
func (p *Pool) Claim(addr netip.Addr, owner Owner) error {
	return p.ledger.request("claim", addr, owner)
}

// Reserve is [Pool.Claim], but it is no error if the address belongs to owner
// already. A controller can so replay every Service that it finds at start. A
// holder whose UID was not known gets that of owner.
func (p *Pool) Reserve(addr netip.Addr, owner Owner) error {
	return p.ledger.request("reserve", addr, owner)
}

// Pick gives a free address to owner: each one of the dynamic band with the same
// probability, or if that is full of the static band. It returns an [*Error] that
// wraps [ErrFull] if there is none.
func (p *Pool) Pick(owner Owner) (netip.Addr, error) {
	return p.ledger.pickValue(owner)
}

// Release frees addr if it belongs to owner. An address that nobody has, or that
// is not in the range, is no error. Otherwise Release returns an [*Error] that
// wraps [ErrNotOwner], and the pool is unchanged.
func (p *Pool) Release(addr netip.Addr, owner Owner) error {
	return p.ledger.releaseValue(addr, owner)
}

// Transfer makes to the owner of an address that belongs to from, for instance
// after [Pool.RestoreAllocation], which knows of no owners. It returns an
// [*Error] that wraps [ErrNotOwner] or [ErrOutOfRange].
func (p *Pool) Transfer(addr netip.Addr, from, to Owner) error {
	return p.ledger.transferValue(addr, from, to)
}

// Exclude takes addresses out of the range for good: they are neither used nor
// free, cannot be claimed and cannot be released. It stops at the first error, an
// [*Error] that wraps [ErrTaken] or [ErrOutOfRange].
func (p *Pool) Exclude(addrs ...netip.Addr) error {
	return p.ledger.excludeValues(addrs)
}

// Has reports whether somebody holds addr.
func (p *Pool) Has(addr netip.Addr) bool {
	_, ok := p.Owner(addr)
	return ok
}

// Owner returns who holds addr, and whether somebody does. The Owner is zero for
// an address that was claimed without one.
func (p *Pool) Owner(addr netip.Addr) (Owner, bool) {
	return p.ledger.ownerOf(addr)
}

// All iterates over the addresses in use and their owners, in ascending order.
// The loop may use the pool; what changes meanwhile may or may not be seen.
func (p *Pool) All() iter.Seq2[netip.Addr, Owner] {
	return p.ledger.values()
}

// Stats counts the addresses of both bands together, in constant time.
func (p *Pool) Stats() Stats { return p.BandStats(Static).plus(p.BandStats(Dynamic)) }

// BandStats counts the addresses of one band, in constant time.
func (p *Pool) BandStats(band Band) Stats { return p.ledger.counts(band) }

// Bounds returns the first and the last address of a band, and false if the band
// is empty.
func (p *Pool) Bounds(band Band) (first, last netip.Addr, ok bool) {
	return p.ledger.boundsOf(band)
}
