package plan

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

func familyOf(a netip.Addr) corev1.IPFamily {
	if a.Is4() || a.Is4In6() {
		return corev1.IPv4Protocol
	}
	return corev1.IPv6Protocol
}

// index numbers the families for arrays.
func index(f corev1.IPFamily) int {
	if f == corev1.IPv6Protocol {
		return 1
	}
	return 0
}

func families() [2]corev1.IPFamily {
	return [2]corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}
}

// canonical returns an IPv4 address that is mapped into IPv6 as IPv4, and no zone.
func canonical(a netip.Addr) netip.Addr { return a.Unmap().WithZone("") }

// canonicalPrefix does the same for a range, and clears the host bits. It returns
// the zero Prefix if p is not valid.
func canonicalPrefix(p netip.Prefix) netip.Prefix {
	if p.Addr().Is4In6() && p.Bits() >= 96 {
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked()
}

func containsAddr(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
