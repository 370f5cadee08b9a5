package allocator

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"net/netip"
)

// maxBitmapIPv6 is how many addresses of an IPv6 range, the network address
// included, a RangeAllocation can hold.
const maxBitmapIPv6 = 1 << 16

// A span is a run of consecutive addresses of one family: those that a range
// can hand out.
type span struct {
	first netip.Addr
	size  uint64
}

// at returns the address with number n, which must be less than s.size.
func (s span) at(n uint64) netip.Addr {
	if s.first.Is4() {
		b := s.first.As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(n))
		return netip.AddrFrom4(b)
	}
	b := s.first.As16()
	low, carry := bits.Add64(binary.BigEndian.Uint64(b[8:]), n, 0)
	binary.BigEndian.PutUint64(b[8:], low)
	binary.BigEndian.PutUint64(b[:8], binary.BigEndian.Uint64(b[:8])+carry)
	return netip.AddrFrom16(b)
}

// last returns the last address; s must not be empty.
func (s span) last() netip.Addr { return s.at(s.size - 1) }

// number returns the number of a, or false if a is not in s. An address with a
// zone, or an IPv4 address mapped into IPv6, is in no span of IPv4 addresses.
func (s span) number(a netip.Addr) (uint64, bool) {
	if s.size == 0 || a.BitLen() != s.first.BitLen() || a.Zone() != "" {
		return 0, false
	}
	n, ok := distance(s.first, a)
	return n, ok && n < s.size
}

// label makes span a kind, with number and at.
func (s span) label(a netip.Addr) string { return a.String() }

// distance returns to-from for two addresses of one family, or false if it is
// negative or at least 2^64.
func distance(from, to netip.Addr) (uint64, bool) {
	f, t := from.As16(), to.As16() // IPv4 gets the same upper bits in both
	low, borrow := bits.Sub64(binary.BigEndian.Uint64(t[8:]), binary.BigEndian.Uint64(f[8:]), 0)
	high, borrow := bits.Sub64(binary.BigEndian.Uint64(t[:8]), binary.BigEndian.Uint64(f[:8]), borrow)
	return low, high == 0 && borrow == 0
}

// A prefixRange is what follows from a prefix: which addresses are usable, and
// how many of them are the static band.
type prefixRange struct {
	prefix netip.Prefix
	span   span
	offset uint64
	bits   uint64 // how many of them a RangeAllocation holds
}

// Errors of prefixes that cannot be a range.
var (
	errBadPrefix  = errors.New("not a valid prefix")
	errTooWide    = errors.New("prefixes shorter than /64 are not supported")
	errTooWideAll = errors.New("with its edges an IPv6 range must be longer than /64")
	errNoNext     = errors.New("no address follows the network address")
)

func prefixError(prefix netip.Prefix, err error) error {
	return &Error{Op: "new", Value: prefix.String(), Err: err}
}

// newPrefixRange applies the rules for ServiceCIDRs: the network address is
// never usable, the last address of an IPv4 prefix neither.
func newPrefixRange(prefix netip.Prefix) (prefixRange, error) {
	if !prefix.IsValid() {
		return prefixRange{}, prefixError(prefix, errBadPrefix)
	}
	prefix = prefix.Masked()
	first := prefix.Addr().Next()
	host := prefix.Addr().BitLen() - prefix.Bits()
	switch {
	case host > 64:
		return prefixRange{}, prefixError(prefix, errTooWide)
	case !first.IsValid():
		return prefixRange{}, prefixError(prefix, errNoNext)
	}
	usable := uint64(math.MaxUint64) // 2^64 minus the network address
	if host < 64 {
		usable = 1<<host - 1
	}
	if prefix.Addr().Is4() && usable > 0 {
		usable--
	}
	return prefixRange{
		prefix: prefix,
		span:   span{first, usable},
		offset: addressOffset(bandSize(prefix), usable),
		bits:   bitmapUsable(prefix),
	}, nil
}

// bandSize returns the size of a prefix as the band formula counts it: none for
// IPv4 from /1 and IPv6 from /127 on, and at most what a signed number holds.
// It mirrors Kubernetes, where static bands must be where users expect them.
func bandSize(prefix netip.Prefix) uint64 {
	host := prefix.Addr().BitLen() - prefix.Bits()
	switch {
	case prefix.Addr().Is4() && host >= 31, prefix.Addr().Is6() && host >= 127:
		return 0
	case host >= 63:
		return math.MaxInt64
	}
	return 1 << host
}

// newBitmapRange is newPrefixRange with the limits of a RangeAllocation.
func newBitmapRange(prefix netip.Prefix) (prefixRange, error) {
	if !prefix.IsValid() {
		return prefixRange{}, prefixError(prefix, errBadPrefix)
	}
	prefix = prefix.Masked()
	usable := bitmapUsable(prefix)
	return prefixRange{
		prefix: prefix,
		span:   span{prefix.Addr().Next(), usable},
		offset: addressOffset(bandSize(prefix), usable),
		bits:   usable,
	}, nil
}

// bitmapUsable returns how many addresses a RangeAllocation can hold.
func bitmapUsable(prefix netip.Prefix) uint64 {
	size, edges := bandSize(prefix), uint64(2)
	if prefix.Addr().Is6() {
		size, edges = min(size, maxBitmapIPv6), 1
	}
	return size - min(size, edges)
}

// newEdgeRange is newPrefixRange with the first and the last address usable.
func newEdgeRange(prefix netip.Prefix) (prefixRange, error) {
	if !prefix.IsValid() {
		return prefixRange{}, prefixError(prefix, errBadPrefix)
	}
	prefix = prefix.Masked()
	host := prefix.Addr().BitLen() - prefix.Bits()
	if host >= 64 {
		return prefixRange{}, prefixError(prefix, errTooWideAll)
	}
	size := uint64(1) << host
	return prefixRange{
		prefix: prefix,
		span:   span{prefix.Addr(), size},
		offset: addressOffset(bandSize(prefix), size),
	}, nil
}

// newSpan returns the addresses from first to last, both included.
func newSpan(first, last netip.Addr) (span, error) {
	switch {
	case !first.IsValid(), !last.IsValid(), first.Zone() != "", last.Zone() != "", first.BitLen() != last.BitLen():
		return span{}, fmt.Errorf("%s and %s are not addresses of one family", first, last)
	case last.Less(first):
		return span{}, fmt.Errorf("%s is after %s", first, last)
	}
	n, ok := distance(first, last)
	if !ok || n == math.MaxUint64 {
		return span{}, errors.New("more than 2^64-1 addresses")
	}
	return span{first, n + 1}, nil
}
