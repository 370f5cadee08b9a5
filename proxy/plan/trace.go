package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/internal/ip"
)

// A Packet opens a connection: the first packet of a flow.
type Packet struct {
	Source      netip.Addr
	Destination netip.AddrPort
	Protocol    corev1.Protocol
	Interface   string // on which it comes in, "" if unknown or none
}

// A Trace is what a Plan says about a Packet.
type Trace struct {
	// Packet is the packet with canonical addresses (IPv4 not mapped, no zone) and
	// the protocol in capitals.
	Packet Packet
	Origin Origin

	Verdict Verdict

	// Endpoints are the possible destinations of a forwarded packet, sorted. The
	// caller must not change the slice.
	Endpoints []*endpoints.Endpoint

	// Masquerade is the flag of the action; Exempt are the endpoints on this node's
	// own addresses to which it does not apply; Hairpin those that are the source
	// itself, whatever their nodeName says, to which the packet is masqueraded in any case.
	Masquerade bool
	Exempt     []*endpoints.Endpoint
	Hairpin    []*endpoints.Endpoint

	// Port and Frontend decided; both nil if none matched.
	Port     *Port
	Frontend *Frontend

	// Reason says in words why.
	Reason string

	// IfLocal is the answer that holds instead if the packet's source, or its destination, is a local
	// address of the machine that Node.Addresses lacks, which a plan cannot know and every kernel
	// does. It is nil if that answer is the same. A source that comes in on an interface is not
	// local. Source ranges count as the plan has them, and with it every data plane: whether one admits the node is
	// decided by Node.Addresses.
	IfLocal *Trace
}

// Trace tells what happens to a packet. It is the specification that a data plane
// has to meet. In this order:
//
//  1. The frontend with this address, port and protocol, or else the NodePort with
//     this port, if the destination serves NodePorts. Its source ranges come
//     first, then its action for the packet's origin.
//  2. Another port of a ClusterIP: reject.
//  3. An address in a Service CIDR that is no ClusterIP: drop.
//  4. Everything else: pass.
//
// The node's own addresses are those in Node.Addresses. Of others Trace says what happens if they are
// elsewhere, and in IfLocal what happens if they are the machine's.
func (p *Plan) Trace(packet Packet) Trace {
	p = p.orEmpty()
	packet.Source = ip.Canonical(packet.Source)
	packet.Destination = netip.AddrPortFrom(ip.Canonical(packet.Destination.Addr()), packet.Destination.Port())
	packet.Protocol = corev1.Protocol(strings.ToUpper(string(packet.Protocol)))
	t := p.trace(packet)
	if local := p.withLocal(packet).trace(packet); !t.sameAnswer(&local) {
		t.IfLocal = &local
	}
	return t
}

// withLocal returns a plan like p of a node that has those of a packet's addresses that may be local.
func (p *Plan) withLocal(packet Packet) *Plan {
	q := *p
	q.cfg.Node.Addresses = slices.Clone(p.cfg.Node.Addresses)
	if packet.Interface == "" && p.cfg.origin(packet) == FromOutside {
		q.cfg.Node.Addresses = append(q.cfg.Node.Addresses, packet.Source)
	}
	q.cfg.Node.Addresses = append(q.cfg.Node.Addresses, packet.Destination.Addr())
	return &q
}

// sameAnswer reports whether the same happens to the packet.
func (t *Trace) sameAnswer(o *Trace) bool {
	return t.Verdict == o.Verdict && t.Masquerade == o.Masquerade && slices.Equal(t.Endpoints, o.Endpoints) &&
		slices.Equal(t.Exempt, o.Exempt) && slices.Equal(t.Hairpin, o.Hairpin)
}

func (p *Plan) trace(packet Packet) Trace {
	t := Trace{Packet: packet, Origin: p.cfg.origin(packet)}
	if packet.Source.Is4() != packet.Destination.Addr().Is4() {
		t.Reason = "source and destination are of different families"
		return t
	}
	t.Port, t.Frontend = p.dialed(packet)
	if t.Frontend == nil {
		t.Verdict, t.Reason = p.unmatched(packet)
		return t
	}
	if !t.Frontend.Allows(packet.Source) {
		t.Verdict = Drop
		t.Reason = fmt.Sprintf("%s is not in the source ranges of %s", packet.Source, t.Port.PortName)
		return t
	}
	action := t.Frontend.Actions[t.Origin]
	t.Verdict, t.Masquerade = action.Verdict, action.Masquerade
	t.Endpoints = t.Port.Endpoints(action.Pool)
	t.Reason = p.reason(&t, action)
	t.Exempt, t.Hairpin = p.exceptions(&t)
	return t
}

// origin tells where a packet comes from; the first rule that matches decides.
func (c Config) origin(packet Packet) Origin {
	switch {
	case c.isPodInterface(packet.Interface), containsAddr(c.Node.PodCIDRs, packet.Source):
		return FromPod
	case packet.Source.IsLoopback(), slices.Contains(c.Node.Addresses, packet.Source):
		return FromNode
	default:
		return FromOutside
	}
}

func (c Config) isPodInterface(name string) bool {
	return name != "" && slices.ContainsFunc(c.PodInterfaces, func(pattern string) bool {
		prefix, many := strings.CutSuffix(pattern, "*")
		return name == pattern || many && strings.HasPrefix(name, prefix)
	})
}

// dialed returns the frontend that a packet is for.
func (p *Plan) dialed(packet Packet) (*Port, *Frontend) {
	if port, f := p.Lookup(packet.Destination, packet.Protocol); f != nil {
		return port, f
	}
	port, f := p.nodePort(packet)
	if f == nil || !p.cfg.servesNodePorts(packet.Destination.Addr()) {
		return nil, nil
	}
	return port, f
}

// unmatched tells what happens to a packet that is for no frontend.
func (p *Plan) unmatched(packet Packet) (Verdict, string) {
	dst := packet.Destination.Addr()
	port, _ := p.nodePort(packet)
	switch {
	case p.IsClusterIP(dst):
		return Reject, fmt.Sprintf("%s is a ClusterIP without this port", dst)
	case containsAddr(p.cfg.ServiceCIDRs, dst):
		return Drop, fmt.Sprintf("%s is in a Service CIDR and no Service has it", dst)
	case port != nil:
		return Pass, fmt.Sprintf("%s does not serve NodePorts, such as that of %s", dst, port.PortName)
	default:
		return Pass, "no frontend, ClusterIP or Service CIDR matches"
	}
}

// nodePort returns the owner of the NodePort that a packet may be for.
func (p *Plan) nodePort(packet Packet) (*Port, *Frontend) {
	dst := packet.Destination
	return p.LookupNodePort(ip.Family(dst.Addr()), dst.Port(), packet.Protocol)
}

// exceptions lists the endpoints for which the flag Masquerade does not tell all.
func (p *Plan) exceptions(t *Trace) (exempt, hairpin []*endpoints.Endpoint) {
	for _, e := range t.Endpoints {
		switch {
		case p.IsHairpin(t.Packet, e):
			hairpin = append(hairpin, e)
		case t.Masquerade && p.EndsOnNode(t.Packet, e):
			exempt = append(exempt, e)
		}
	}
	return exempt, hairpin
}
