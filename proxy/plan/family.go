package plan

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

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

func containsAddr(prefixes []netip.Prefix, a netip.Addr) bool {
	for _, p := range prefixes {
		if p.Contains(a) {
			return true
		}
	}
	return false
}
