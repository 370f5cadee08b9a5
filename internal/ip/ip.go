// Package ip has the one answer to what an address or a range in an object is: its family, its canonical form, what
// its text means, and which of two ranges comes first.
//
// Text is read as leniently as the API server reads it: leading zeros are decimal, as in objects stored before
// Go 1.17 that are still served, and an IPv4 address mapped into IPv6 counts as the IPv4 address. Zones are refused.
// Space around the text is not removed: readers of fields that may have some do it.
package ip

import (
	"cmp"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	netutils "k8s.io/utils/net"
)

// mappedBits is the length of ::ffff:0:0/96, under which IPv4 is mapped into IPv6.
const mappedBits = 96

// Family returns the family of a, as the API names it: IPv4 also for a mapped address, "" for the zero Addr.
func Family(a netip.Addr) corev1.IPFamily {
	switch {
	case !a.IsValid():
		return ""
	case a.Is4() || a.Is4In6():
		return corev1.IPv4Protocol
	default:
		return corev1.IPv6Protocol
	}
}

// Canonical returns a mapped IPv4 address as IPv4, and drops a zone. Canonical addresses are equal exactly if they
// are one address.
func Canonical(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// CanonicalPrefix returns p with its host bits cleared, and a range of mapped addresses as the IPv4 range, since
// the former contains no address at all in net/netip. It returns the zero Prefix if p is not valid.
func CanonicalPrefix(p netip.Prefix) netip.Prefix {
	p = p.Masked()
	if p.Addr().Is4In6() {
		// No shorter range begins with a mapped address.
		return netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-mappedBits)
	}
	return p
}

// ParseAddr reads an address. The result is canonical; it is the zero Addr, and ok false, if text is not an address.
func ParseAddr(text string) (a netip.Addr, ok bool) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		// Only IPv4 octets with leading zeros get here and are valid. This parser is slower.
		a, _ = netip.AddrFromSlice(netutils.ParseIPSloppy(text))
	}
	if a.Zone() != "" {
		return netip.Addr{}, false
	}
	return a.Unmap(), a.IsValid()
}

// SameAddr reports whether two texts are equal, or mean the same address.
func SameAddr(a, b string) bool {
	if a == b {
		return true
	}
	x, ok := ParseAddr(a)
	y, _ := ParseAddr(b)
	return ok && x == y
}

// ParsePrefix reads a range in CIDR notation. The result is canonical; it is the zero Prefix, and ok false, if
// text is not a range.
func ParsePrefix(text string) (p netip.Prefix, ok bool) {
	p, err := netip.ParsePrefix(text)
	if err != nil {
		_, n, err := netutils.ParseCIDRSloppy(text)
		if err != nil {
			return netip.Prefix{}, false
		}
		a, _ := netip.AddrFromSlice(n.IP)
		bits, _ := n.Mask.Size()
		p = netip.PrefixFrom(a, bits)
	}
	return CanonicalPrefix(p), true
}

// ComparePrefixes orders ranges by family, IPv4 first, then by address, then the longer range last.
func ComparePrefixes(a, b netip.Prefix) int {
	return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
}
