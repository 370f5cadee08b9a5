package conntrack

import (
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	v1 "k8s.io/api/core/v1"

	"k8s.io/kubernetes/pkg/proxy"

	"github.com/vipkit/vipkit/backends/conntrack"
	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// CleanStaleEntries lets upstream delete flows, and asks vipkit about each.
func CleanStaleEntries(ct Interface, family v1.IPFamily, ports proxy.ServicePortMap, endpoints proxy.EndpointsMap) {
	r := &vipkitRecorder{Interface: ct, deleted: map[*netlink.ConntrackFlow]bool{}}
	upstreamCleanStaleEntries(r, family, ports, endpoints)
	if !r.asked {
		return
	}
	var flows []shadow.Flow
	for _, e := range r.entries {
		flows = append(flows, shadow.Flow{
			UDP: e.Forward.Protocol == unix.IPPROTO_UDP, Deleted: r.deleted[e],
			Flow: conntrack.Flow{
				Source:      netip.MustParseAddrPort("203.0.113.2:4000"),
				Destination: vipkitAddrPort(e.Forward.DstIP, e.Forward.DstPort),
				ReplySource: vipkitAddrPort(e.Reverse.SrcIP, e.Reverse.SrcPort),
			},
		})
	}
	shadow.CompareFlows(family, flows)
}

// A vipkitRecorder notes what is listed and deleted.
type vipkitRecorder struct {
	Interface
	asked   bool
	entries []*netlink.ConntrackFlow
	deleted map[*netlink.ConntrackFlow]bool
}

func (r *vipkitRecorder) ListEntries(family uint8) ([]*netlink.ConntrackFlow, error) {
	entries, err := r.Interface.ListEntries(family)
	r.entries = append(r.entries, entries...)
	return entries, err
}

func (r *vipkitRecorder) DeleteEntries(family uint8, flows []*netlink.ConntrackFlow) (int, error) {
	r.asked = true
	for _, f := range flows {
		r.deleted[f] = true
	}
	return r.Interface.DeleteEntries(family, flows)
}

// vipkitAddrPort takes an address that is missing for the node's, as upstream's tests leave out
// to where flows to NodePorts go.
func vipkitAddrPort(ip []byte, port uint16) netip.AddrPort {
	a, ok := netip.AddrFromSlice(ip)
	if !ok {
		a = shadow.NodeIP()
	}
	return netip.AddrPortFrom(a.Unmap(), port)
}
