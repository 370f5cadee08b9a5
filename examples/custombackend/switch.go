package main

import (
	"iter"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A Switch stands for your data plane: a table of flows, each written or removed at once, that
// packets meet. This one is in memory and answers what would become of a packet. It
// knows nothing of Services.
type Switch struct {
	// Fail and FailFlows are asked before each write, with a nil Flow for a removal, and before Flows, for tests; they may be nil.
	Fail      func(Match, *Flow) error
	FailFlows func() error

	flows map[Match]Flow
}

// A Match is what the packets of a flow have in common. Without an address it is a
// NodePort; without a port it is all packets to an address that nothing else matches; without both it is the node.
type Match struct {
	Addr     netip.Addr
	Family   corev1.IPFamily
	Protocol corev1.Protocol
	Port     uint16
}

// A Flow is what happens to packets; without a port they are refused. That of the node has the configuration,
// by which the Switch knows the origin of a packet and where NodePorts are served.
type Flow struct {
	Port     *plan.Port
	Frontend plan.Frontend
	Node     *plan.Plan
}

// Put adds or replaces a flow.
func (s *Switch) Put(m Match, f Flow) error {
	if err := s.fail(m, &f); err != nil {
		return err
	}
	if s.flows == nil {
		s.flows = map[Match]Flow{}
	}
	s.flows[m] = f
	return nil
}

// Delete removes a flow. That there is none is no error.
func (s *Switch) Delete(m Match) error {
	if err := s.fail(m, nil); err != nil {
		return err
	}
	delete(s.flows, m)
	return nil
}

func (s *Switch) fail(m Match, f *Flow) error {
	if s.Fail == nil {
		return nil
	}
	return s.Fail(m, f)
}

// Flows yields all flows.
func (s *Switch) Flows() (iter.Seq2[Match, Flow], error) {
	if s.FailFlows != nil {
		if err := s.FailFlows(); err != nil {
			return nil, err
		}
	}
	return maps.All(s.flows), nil
}

// node returns the plan that was written last.
func (s *Switch) node() *plan.Plan { return s.flows[Match{}].Node }

// Trace tells what becomes of a packet. The conformance suite asks it in the place of
// sending packets.
func (b *Backend) Trace(packet plan.Packet) plan.Trace { return b.Switch.Trace(packet) }

// Trace tells what becomes of a packet.
func (s *Switch) Trace(packet plan.Packet) plan.Trace {
	t := plan.Trace{Packet: packet, Origin: s.node().Origin(packet)}
	flow, ok := s.find(packet)
	isDestination := func(r netip.Prefix) bool { return r.Contains(packet.Destination.Addr()) }
	switch {
	case !ok && slices.ContainsFunc(s.node().Config().ServiceCIDRs, isDestination):
		t.Verdict = plan.Drop
	case !ok: // t.Verdict is plan.Pass
	case flow.Port == nil:
		t.Verdict = plan.Reject
	case !flow.Frontend.Allows(packet.Source):
		t.Verdict = plan.Drop
	default:
		s.apply(flow, &t)
	}
	return t
}

// find returns the flow that matches best.
func (s *Switch) find(packet plan.Packet) (Flow, bool) {
	dst := packet.Destination.Addr()
	m := Match{Addr: dst, Family: corev1.IPv4Protocol, Protocol: packet.Protocol, Port: packet.Destination.Port()}
	if dst.Is6() {
		m.Family = corev1.IPv6Protocol
	}
	if f, ok := s.flows[m]; ok {
		return f, true
	}
	m.Addr = netip.Addr{}
	if f, ok := s.flows[m]; ok && s.node().ServesNodePorts(dst) {
		return f, true
	}
	f, ok := s.flows[Match{Addr: dst, Family: m.Family}]
	return f, ok
}

// apply does what a flow says for the origin of a packet.
func (s *Switch) apply(f Flow, t *plan.Trace) {
	action := f.Frontend.Actions[t.Origin]
	t.Verdict, t.Masquerade = action.Verdict, action.Masquerade
	t.Endpoints = f.Port.Endpoints(action.Pool)
	for _, e := range t.Endpoints {
		switch masquerade := s.node().Masquerades(t.Packet, action, e); {
		case masquerade && !action.Masquerade:
			t.Hairpin = append(t.Hairpin, e)
		case !masquerade && action.Masquerade:
			t.Exempt = append(t.Exempt, e)
		}
	}
}
