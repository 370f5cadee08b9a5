package nodeflags

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/vipkit/vipkit/internal/ip"
)

// ParseAddr reads an address as Kubernetes does: leading zeros are decimal. The
// result is canonical: an IPv4 address is never mapped into IPv6.
func ParseAddr(s string) (netip.Addr, error) {
	a, ok := ip.ParseAddr(s)
	if !ok {
		return netip.Addr{}, fmt.Errorf("%q: must be an IP address", s)
	}
	return a, nil
}

// ParsePrefix reads a CIDR with the rules of [ParseAddr] and clears its host bits.
func ParsePrefix(s string) (netip.Prefix, error) {
	p, ok := ip.ParsePrefix(s)
	if !ok {
		return netip.Prefix{}, errors.New("must be an IP range in CIDR notation")
	}
	return p, nil
}
