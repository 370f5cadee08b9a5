package conntrack

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/proxy/plan"
)

// nodeAddresses are the addresses that serve NodePorts of one family. The zero value
// has none.
type nodeAddresses struct {
	plan.NodePortAddresses
	local []netip.Addr // what Any stands for, sorted
}

func nodeAddressesOf(p *plan.Plan, f corev1.IPFamily, local []netip.Addr) nodeAddresses {
	n := nodeAddresses{NodePortAddresses: p.NodePortAddresses(f)}
	if !n.Any {
		return n
	}
	for _, a := range slices.Concat(p.Config().Node.Addresses, local) {
		if ip.Family(a) == f && n.Serves(a) {
			n.local = append(n.local, a)
		}
	}
	slices.SortFunc(n.local, netip.Addr.Compare)
	n.local = slices.Compact(n.local)
	return n
}

func (n nodeAddresses) has(a netip.Addr) bool {
	if _, ok := slices.BinarySearchFunc(n.local, a, netip.Addr.Compare); ok {
		return true
	}
	return plan.NodePortAddresses{Addrs: n.Addrs, Prefixes: n.Prefixes}.Serves(a) // whatever else is local
}

func (n nodeAddresses) equal(o nodeAddresses) bool {
	return n.Equal(o.NodePortAddresses) && slices.Equal(n.local, o.local)
}
