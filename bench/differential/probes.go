package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A probe is one way to send a first packet.
type probe struct {
	from   string
	source netip.Addr // unspecified: the kernel chooses
	to     netip.AddrPort
	proto  corev1.Protocol
}

func (p probe) String() string { return fmt.Sprintf("%s(%s)->%s/%s", p.from, p.source, p.to, p.proto) }

// sources are who sends, in one family.
func sources(four bool) []probe {
	var out []probe
	add := func(from, v4, v6 string) {
		a := v6
		if four {
			a = v4
		}
		out = append(out, probe{from: from, source: netip.MustParseAddr(a)})
	}
	add("a", "10.200.1.1", "fd00:200:1::1")
	add("b", "10.200.1.2", "fd00:200:1::2")
	add("c", "10.200.1.200", "fd00:200:1::8888") // a pod that is nobody's endpoint
	add(netlab.NodeName, "192.0.2.10", "2001:db8:1::10")
	add(netlab.NodeName, "192.0.2.110", "2001:db8:1::110")
	add(netlab.NodeName, "0.0.0.0", "::")
	add("out1", "198.51.100.4", "2001:db8:5::4")
	add("out1", "198.51.100.200", "2001:db8:5::8888")
	add("out2", "198.18.0.4", "2001:db8:6::4")
	add("remote", "10.200.2.1", "fd00:200:2::1")
	add("remote", "192.0.2.20", "2001:db8:1::20")
	return out
}

// targets lists what may be dialled: everything that the objects mention or did before the last change, and some that nobody does.
func (c *cluster) targets(before map[string]*corev1.Service) []probe {
	seen := map[probe]bool{}
	var out []probe
	add := func(ip string, port int32, proto corev1.Protocol) {
		a, err := netip.ParseAddr(ip)
		p := probe{to: netip.AddrPortFrom(a, uint16(port)), proto: proto} //nolint:gosec // a port of an object
		if err != nil || port == 0 || seen[p] {
			return
		}
		seen[p] = true
		out = append(out, p)
	}
	all := map[string]*corev1.Service{}
	for k, s := range before {
		all[k+" before"] = s // what is gone must be gone
	}
	for k, s := range c.services {
		all[k] = s
	}
	for _, k := range sortedKeys(all) {
		c.targetsOf(all[k], add)
	}
	add("10.96.200.200", 80, corev1.ProtocolTCP) // in the Service range, and nobody's
	add("fd00:96::7777", 53, corev1.ProtocolUDP)
	add("10.200.2.1", 8080, corev1.ProtocolTCP) // no Service at all
	add("10.200.1.2", 8081, corev1.ProtocolUDP)
	add("203.0.113.250", 80, corev1.ProtocolTCP)
	return out
}

func (c *cluster) targetsOf(s *corev1.Service, add func(string, int32, corev1.Protocol)) {
	ips := slices.Concat(s.Spec.ClusterIPs, s.Spec.ExternalIPs)
	for _, in := range s.Status.LoadBalancer.Ingress {
		ips = append(ips, in.IP)
	}
	for _, p := range s.Spec.Ports {
		for _, ip := range ips {
			add(ip, p.Port, p.Protocol)
		}
		for _, n := range nodeAddrs() {
			add(n.String(), p.NodePort, p.Protocol)
		}
		if len(ips) == 0 || !c.chance(40) {
			continue
		}
		other := map[corev1.Protocol]corev1.Protocol{corev1.ProtocolTCP: corev1.ProtocolUDP, corev1.ProtocolUDP: corev1.ProtocolTCP}
		switch ip := ips[c.rand.IntN(len(ips))]; c.rand.IntN(3) {
		case 0:
			add(ip, 1234, p.Protocol)
		case 1:
			add(ip, p.Port, other[p.Protocol])
		case 2:
			add(ip, p.NodePort, p.Protocol)
		}
	}
}

// The outcomes of a probe that is not answered. An answer is "SERVER SOURCE".
const (
	refused = "refused"
	timeout = "timeout"
)

func answered(outcome string) bool { return strings.Contains(outcome, " ") }

// result puts what netlab says in words.
func result(r netlab.Result) string {
	switch r.Outcome {
	case netlab.Answered:
		server := r.Answer.Server.String()
		if r.Answer.Server.Port() == worldPort {
			server = world
		}
		return server + " " + r.Answer.Peer.Addr().Unmap().String()
	case netlab.Refused:
		return refused
	default:
		return timeout
	}
}

// plain replaces the node's addresses as a source by the node's name: which one it takes is not the plan's business.
func plain(outcome string) string {
	server, source, ok := strings.Cut(outcome, " ")
	if a, err := netip.ParseAddr(source); ok && err == nil && (isNode(a) || slices.Contains(localVIPs(), a)) {
		return server + " " + netlab.NodeName
	}
	return outcome
}

// An expectation is what the plan says, in the words of outcomes.
type expectation struct {
	want  map[string]bool
	vague bool // the network decides something that the plan does not know of
	trace plan.Trace
}

// expect asks the plan.
func (c *cluster) expect(pl *plan.Plan, p probe) expectation {
	source := p.source
	if source.IsUnspecified() {
		source = c.chosen(p.to.Addr())
	}
	packet := plan.Packet{Source: source, Destination: p.to, Protocol: p.proto}
	for _, h := range hosts() {
		if h.Name == p.from {
			packet.Interface = h.Interface
		}
	}
	e := expectation{want: map[string]bool{}, trace: pl.Trace(packet)}
	from := source.String()
	if p.from == netlab.NodeName {
		from = netlab.NodeName
	}
	switch e.trace.Verdict {
	case plan.Drop:
		e.want[timeout] = true
	case plan.Reject:
		e.want[refused] = true
	case plan.Pass:
		c.expectPass(&e, p, from)
	case plan.Forward:
		expectForward(&e, p, from)
	}
	return e
}

// chosen is the source address that the node's kernel takes.
func (c *cluster) chosen(to netip.Addr) netip.Addr {
	switch {
	case isNode(to), slices.Contains(c.localVIPs, to):
		return to
	case to.Is4():
		return nodeAddrs()[0]
	default:
		return nodeAddrs()[2]
	}
}

func (c *cluster) expectPass(e *expectation, p probe, from string) {
	to := p.to.Addr()
	switch at := hostOf(to); {
	case slices.Contains(c.localVIPs, to):
		e.want[refused] = true
	case at == world && !slices.Contains(worldAddrs(), to):
		e.want[world+" "+from] = true
	case at == "":
		e.vague = true
	case slices.Contains(serverPorts(), p.to.Port()) && !slices.Contains(foreignAddrs(), to):
		e.want[p.to.String()+" "+from] = true
	default:
		e.want[refused] = true
	}
}

func expectForward(e *expectation, p probe, from string) {
	for _, ep := range e.trace.Endpoints {
		masquerade := e.trace.Masquerades(ep)
		seen := from
		if masquerade {
			seen = netlab.NodeName
		}
		e.want[ep.Addr.String()+" "+seen] = true
		if !masquerade && p.from != netlab.NodeName && hostOf(ep.Addr.Addr()) == p.from {
			e.vague = true // the host would see its own address come in
		}
	}
}
