package healthcheck

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A listenAddress is where the ports of all Services listen: one address, or the
// wildcard of its family.
type listenAddress struct {
	addr netip.Addr
}

func (l listenAddress) wildcard() bool { return l.addr.IsUnspecified() }

// network names the family, so that the IPv6 wildcard does not take the port from
// the IPv4 one (#47).
func (l listenAddress) network() string {
	if l.addr.Is4() {
		return "tcp4"
	}
	return "tcp6"
}

// listenAddresses returns where to listen, IPv4 first, sorted.
func listenAddresses(p *plan.Plan) []listenAddress {
	v4 := p.NodePortAddresses(corev1.IPv4Protocol)
	v6 := p.NodePortAddresses(corev1.IPv6Protocol)
	return slices.Concat(ofFamily(v4, netip.IPv4Unspecified()), ofFamily(v6, netip.IPv6Unspecified()))
}

func ofFamily(n plan.NodePortAddresses, wildcard netip.Addr) []listenAddress {
	if n.Any {
		return []listenAddress{{wildcard}}
	}
	var list []listenAddress
	for _, a := range n.Addrs {
		list = append(list, listenAddress{a})
	}
	for _, prefix := range n.Prefixes {
		list = append(list, listenAddress{loopbackIn(prefix)})
	}
	slices.SortFunc(list, func(a, b listenAddress) int { return a.addr.Compare(b.addr) })
	return slices.Compact(list)
}

// loopbackIn chooses one address of a loopback range, since one cannot listen on
// a range: 127.0.0.1 if it is inside.
func loopbackIn(p netip.Prefix) netip.Addr {
	if usual := netip.AddrFrom4([4]byte{127, 0, 0, 1}); p.Contains(usual) {
		return usual
	}
	return p.Addr()
}

// noSuchFamily reports whether a wildcard address could not be listened on because the
// host has no addresses of the family.
func noSuchFamily(err error) bool {
	return errors.Is(err, syscall.EAFNOSUPPORT) || errors.Is(err, syscall.EADDRNOTAVAIL)
}
