// Package special names addresses that the Kubernetes API refuses for external IPs and
// endpoints, and that no Service can be served by: packets to them never leave a host or a link.
package special

import "net/netip"

// Reason returns why a, which is not an IPv4 address mapped into IPv6, is special, "" if it is not.
func Reason(a netip.Addr) string {
	switch {
	case a.IsUnspecified():
		return "must not be the unspecified address"
	case a.IsLoopback():
		return "must not be a loopback address (127.0.0.0/8, ::1)"
	case a.IsLinkLocalUnicast():
		return "must not be a link-local address (169.254.0.0/16, fe80::/10)"
	case a.IsLinkLocalMulticast():
		return "must not be a link-local multicast address (224.0.0.0/24, ff02::/16)"
	default:
		return ""
	}
}
