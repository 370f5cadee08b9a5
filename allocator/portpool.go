package allocator

import "iter"

// A PortPool hands out node ports, the health-check node ports included. One
// number stands for all protocols and both families: protocols can share a
// number only within one Service, which [Plan] sees to.
//
// It needs [NewPortPool]. A PortPool is safe for concurrent use and must not be
// copied.
type PortPool struct {
	ports  PortRange
	ledger ledger[uint16]
}

// NewPortPool returns an empty pool of the ports in r. The pool of an empty range
// is always full.
func NewPortPool(r PortRange, opts Options) *PortPool {
	size := uint64(r.Size())
	b := newBook(size, portOffset(size), opts)
	return &PortPool{r, ledger[uint16]{book: b, kind: r, text: r.String(), bits: size, ports: true}}
}

// Range returns the range of the pool.
func (p *PortPool) Range() PortRange { return p.ports }

// Claim gives port to owner if nobody has it, in whichever band it is. It returns
// an [*Error] that wraps [ErrTaken], also if owner has it already,
// [ErrOutOfRange] or [ErrReserved]; the pool is then unchanged.
func (p *PortPool) Claim(port uint16, owner Owner) error {
	return p.ledger.request("claim", port, owner)
}

// Reserve is [PortPool.Claim], but it is no error if the port belongs to owner
// already.
func (p *PortPool) Reserve(port uint16, owner Owner) error {
	return p.ledger.request("reserve", port, owner)
}

// Pick gives a free port to owner, as [Pool.Pick] does.
func (p *PortPool) Pick(owner Owner) (uint16, error) {
	return p.ledger.pickValue(owner)
}

// Release frees port if it belongs to owner; see [Pool.Release].
func (p *PortPool) Release(port uint16, owner Owner) error {
	return p.ledger.releaseValue(port, owner)
}

// Transfer makes to the owner of a port that belongs to from; see [Pool.Transfer].
func (p *PortPool) Transfer(port uint16, from, to Owner) error {
	return p.ledger.transferValue(port, from, to)
}

// Exclude takes ports out of the range for good; see [Pool.Exclude].
func (p *PortPool) Exclude(ports ...uint16) error {
	return p.ledger.excludeValues(ports)
}

// Has reports whether somebody holds port.
func (p *PortPool) Has(port uint16) bool {
	_, ok := p.Owner(port)
	return ok
}

// Owner returns who holds port, and whether somebody does.
func (p *PortPool) Owner(port uint16) (Owner, bool) {
	return p.ledger.ownerOf(port)
}

// All iterates over the ports in use and their owners, in ascending order; see
// [Pool.All].
func (p *PortPool) All() iter.Seq2[uint16, Owner] {
	return p.ledger.values()
}

// Stats counts the ports of both bands together, in constant time.
func (p *PortPool) Stats() Stats { return p.BandStats(Static).plus(p.BandStats(Dynamic)) }

// BandStats counts the ports of one band, in constant time.
func (p *PortPool) BandStats(band Band) Stats { return p.ledger.counts(band) }

// Bounds returns the first and the last port of a band, and false if the band is
// empty.
func (p *PortPool) Bounds(band Band) (first, last uint16, ok bool) {
	return p.ledger.boundsOf(band)
}
