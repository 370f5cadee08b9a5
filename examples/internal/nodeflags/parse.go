package nodeflags

import (
	"errors"
	"fmt"
	"net/netip"

	netutils "k8s.io/utils/net"
)

// ParseAddr reads an address as Kubernetes does: leading zeros are decimal. The
// result is canonical: an IPv4 address is never mapped into IPv6.
func ParseAddr(s string) (netip.Addr, error) {
	ip, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(s))
	if !ok {
		return netip.Addr{}, fmt.Errorf("%q: must be an IP address", s)
	}
	return ip.Unmap(), nil
}

// mappedBits is the length of ::ffff:0:0/96, under which IPv4 is mapped into IPv6.
const mappedBits = 96

// ParsePrefix reads a CIDR with the rules of [ParseAddr] and clears its host bits.
func ParsePrefix(s string) (netip.Prefix, error) {
	_, ipnet, err := netutils.ParseCIDRSloppy(s)
	if err != nil {
		return netip.Prefix{}, errors.New("must be an IP range in CIDR notation")
	}
	ip, _ := netip.AddrFromSlice(ipnet.IP)
	bits, _ := ipnet.Mask.Size()
	if ip.Is4In6() {
		// A prefix of mapped addresses contains no address at all in net/netip.
		ip, bits = ip.Unmap(), max(bits-mappedBits, 0)
	}
	return netip.PrefixFrom(ip, bits), nil
}
