package plan

import (
	"net/netip"
	"slices"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/internal/ip"
)

// Origin returns where a packet comes from: the first of these that is true. It is from a pod if it comes in on one of
// Config.PodInterfaces or its source is in Node.PodCIDRs, from the node if its source is loopback or in Node.Addresses,
// else from outside.
func (p *Plan) Origin(packet Packet) Origin {
	p = p.orEmpty()
	packet.Source = ip.Canonical(packet.Source)
	return p.cfg.origin(packet)
}

// ServesNodePorts reports whether NodePorts are served on an address, as far as the plan knows: with Any it must be in
// Node.Addresses. For other addresses of the machine ask [NodePortAddresses.Serves].
func (p *Plan) ServesNodePorts(a netip.Addr) bool {
	p = p.orEmpty()
	return p.cfg.servesNodePorts(ip.Canonical(a))
}

// Allows reports whether the source ranges of a frontend admit a source.
func (f *Frontend) Allows(source netip.Addr) bool {
	return f == nil || !f.Restricted || containsAddr(f.Allow, ip.Canonical(source))
}

// Masquerades reports whether the source of a packet becomes the node's when an action forwards it to e: if it is a
// hairpin, or if the action says so and the packet does not end on the node itself. Data planes that masquerade in a
// hook behind routing need not ask: see [Plan.IsHairpin] and [Plan.EndsOnNode].
func (p *Plan) Masquerades(packet Packet, a Action, e *endpoints.Endpoint) bool {
	return p.IsHairpin(packet, e) || a.Masquerade && !p.EndsOnNode(packet, e)
}

// IsHairpin reports whether a packet that is forwarded to e comes back to its sender. The answer would not pass the node
// again, so the packet is masqueraded whatever its action says, and wherever e is said to run. A data plane that
// masquerades every packet whose source and destination are equal does all that is asked for here.
//
// A client outside, where pods can be told apart, is not a pod of this node, whatever its address: for it only an
// endpoint with the name of the node counts.
func (p *Plan) IsHairpin(packet Packet, e *endpoints.Endpoint) bool {
	p = p.orEmpty()
	if e == nil || e.Addr.Addr() != ip.Canonical(packet.Source) {
		return false
	}
	elsewhere := p.Origin(packet) == FromOutside && p.rules.of(ip.Family(packet.Source)).detector
	return !elsewhere || e.IsOn(p.cfg.Node.Name)
}

// EndsOnNode reports whether a packet that is forwarded to e comes from elsewhere and ends on the node itself, at one
// of Node.Addresses. It keeps its source: a packet that is delivered locally does not pass the hook that masquerades.
// What the node sends to itself does.
func (p *Plan) EndsOnNode(packet Packet, e *endpoints.Endpoint) bool {
	p = p.orEmpty()
	return e != nil && slices.Contains(p.cfg.Node.Addresses, e.Addr.Addr()) && p.Origin(packet) != FromNode
}

// HasEndpointAt reports whether an endpoint in use has the address and port of f. Translating to it changes nothing,
// and kernels do not record that as a translation: rules for packets that were not translated meet these packets too.
func (p *Port) HasEndpointAt(f *Frontend) bool {
	if p == nil || f == nil {
		return false
	}
	at := netip.AddrPortFrom(f.Addr, f.Port)
	return slices.ContainsFunc(p.Reachable, func(e *endpoints.Endpoint) bool { return e.Addr == at })
}

// Masquerades reports whether the packet is masqueraded on its way to e, one of Endpoints.
func (t *Trace) Masquerades(e *endpoints.Endpoint) bool {
	if t == nil {
		return false
	}
	return t.Masquerade && !slices.Contains(t.Exempt, e) || slices.Contains(t.Hairpin, e)
}
