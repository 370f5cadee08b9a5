package shadow

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/conntrack"
	"github.com/vipkit/vipkit/proxy/plan"
)

// areaFlows is the area of which flows are removed from connection tracking.
const areaFlows = "conntrack"

// NodeIP is the address of the node in tests of connection tracking.
func NodeIP() netip.Addr { return netip.AddrFrom4([4]byte{192, 168, 0, 2}) }

// A Flow is one that upstream has deleted or not.
type Flow struct {
	conntrack.Flow
	UDP     bool
	Deleted bool
}

// CompareFlows asks vipkit which flows are stale, by the trackers that were checked out last.
func CompareFlows(family corev1.IPFamily, flows []Flow) {
	services, slices := Latest()
	if services == nil {
		return
	}
	cfg := plan.Config{Node: plan.Node{Name: NodeName, Addresses: []netip.Addr{NodeIP()}}}
	p := NewPlan(cfg, services, slices)
	judge := conntrack.NewJudge(plan.Full(p), family, nil)
	for _, f := range flows {
		stale := judge.Stale(f.Flow)
		switch {
		case !f.UDP:
			Differ(areaFlows, "not-udp", "%+v", f)
		case stale == f.Deleted:
			Agree(areaFlows)
		default:
			Differ(areaFlows, flowQuestion{plan: p, services: services, family: family}.difference(f), "%v answered by %v: upstream deletes %v, vipkit %v", f.Destination, f.ReplySource, f.Deleted, stale)
		}
	}
}

type flowQuestion struct {
	plan     *plan.Plan
	services *Services
	family   corev1.IPFamily
}

func (q flowQuestion) difference(f Flow) string {
	p, family := q.plan, q.family
	port, front := p.Lookup(f.Destination, corev1.ProtocolUDP)
	nodePort, nodeFront := p.LookupNodePort(family, f.Destination.Port(), corev1.ProtocolUDP)
	if front == nil && f.Destination.Addr() == NodeIP() {
		port, front = nodePort, nodeFront
	}
	switch {
	case front == nil && !f.Deleted && p.IsClusterIP(f.Destination.Addr()):
		return "unused-port-of-a-cluster-ip"
	case front == nil && f.Deleted && nodePort != nil:
		return "node-port-number-elsewhere"
	case front == nil && f.Deleted && q.services.hasStrayIngress(f.Destination.Addr()):
		return "load-balancer-fields-of-another-type"
	case front == nil:
		return Unexplained
	case front.Kind == plan.NodePort && len(port.Serving) == 0 && !f.Deleted:
		return "node-port-without-endpoints"
	case front.Kind != plan.NodePort && len(port.Serving) == 0 && f.Deleted && f.ReplySource == f.Destination:
		return "never-translated-without-endpoints"
	}
	return Unexplained
}

// hasStrayIngress reports whether the address is in the status of a Service of another type
// than LoadBalancer.
func (s *Services) hasStrayIngress(a netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, obj := range s.objects {
		if obj == nil || obj.Spec.Type == corev1.ServiceTypeLoadBalancer {
			continue
		}
		for _, in := range obj.Status.LoadBalancer.Ingress {
			if in.IP == a.String() {
				return true
			}
		}
	}
	return false
}
