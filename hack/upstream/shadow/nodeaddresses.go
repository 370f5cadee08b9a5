package shadow

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
)

// NodeAddresses is the question which addresses of a node serve NodePorts.
type NodeAddresses struct {
	Values []string     // of nodePortAddresses
	Local  []netip.Addr // all that the node has
	Family corev1.IPFamily
	All    bool // the values have a range of length zero
}

// CompareNodeAddresses compares the addresses that upstream and a plan choose.
func CompareNodeAddresses(q NodeAddresses, upstream []netip.Addr) {
	const area = "node-addresses"
	selector, err := plan.ParseNodePortSelector(q.Values)
	if err != nil {
		Differ(area, Unexplained, "%q: %v", q.Values, err)
		return
	}
	p := plan.New(plan.Config{Node: plan.Node{Name: NodeName, Addresses: q.Local}, NodePortAddresses: selector})
	chosen := p.NodePortAddresses(q.Family)
	var ours []netip.Addr
	for _, a := range q.Local {
		if a.Is4() == (q.Family == corev1.IPv4Protocol) && chosen.Serves(a) {
			ours = append(ours, a)
		}
	}
	theirs := sortedAddrs(upstream)
	ours = sortedAddrs(ours)
	notOurs := func(a netip.Addr) bool { return a.IsLoopback() || a.IsLinkLocalUnicast() }
	switch {
	case slices.Equal(ours, theirs):
		Agree(area)
	case q.All && slices.Equal(ours, slices.DeleteFunc(slices.Clone(theirs), notOurs)):
		Differ(area, "all-without-loopback", "%q of %v", q.Values, q.Local)
	default:
		Differ(area, Unexplained, "%q of %v: upstream %v, vipkit %v", q.Values, q.Local, theirs, ours)
	}
}

func sortedAddrs(l []netip.Addr) []netip.Addr {
	return slices.Compact(slices.SortedFunc(slices.Values(l), netip.Addr.Compare))
}
