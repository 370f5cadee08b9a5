package iptables

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// A sender is where packets of a test come from.
type sender struct {
	src   string
	iface string
}

func senders() []sender {
	return []sender{
		{"10.200.1.9", "veth9"},
		{"10.200.1.1", "veth1"},
		{"192.0.2.10", ""},
		{"127.0.0.1", ""},
		{"198.51.100.4", "eth0"},
		{"10.200.2.1", "eth1"},
		{"fd00:200:1::9", "veth9"},
		{"fd00:200:1::1", "veth1"},
		{"2001:db8:1::10", ""},
		{"2001:db8:5::4", "eth0"},
	}
}

// compareWithTrace sends packets from all senders to everything that a plan serves, and
// some more, and compares what the rules do with what the plan says.
func compareWithTrace(t *testing.T, p *plan.Plan, o Options, more ...string) {
	t.Helper()
	text := render(t, p, o)
	sets := map[bool]ruleset{true: parseRules(t, text, "iptables"), false: parseRules(t, text, "ip6tables")}
	for _, s := range senders() {
		src := addr(s.src)
		for _, dst := range targets(p, more) {
			for _, proto := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
				if src.Is4() != dst.Addr().Is4() {
					continue
				}
				packet := plan.Packet{Source: src, Destination: dst, Protocol: proto, Interface: s.iface}
				want, got := expected(p.Trace(packet)), follow(sets[src.Is4()], p, packet)
				if got != want {
					t.Errorf("%v:\n got %s\nwant %s (%s)", packet, got, want, p.Trace(packet).Reason)
				}
			}
		}
	}
}

// targets are all frontends, the NodePorts on some addresses, and unused ports.
func targets(p *plan.Plan, more []string) []netip.AddrPort {
	var out []netip.AddrPort
	for _, m := range more {
		out = append(out, netip.MustParseAddrPort(m))
	}
	for port := range p.All() {
		for _, f := range port.Frontends {
			if f.Kind != plan.NodePort {
				out = append(out, netip.AddrPortFrom(f.Addr, f.Port), netip.AddrPortFrom(f.Addr, f.Port+1))
				continue
			}
			for _, a := range []string{"192.0.2.10", "172.17.0.1", "2001:db8:1::10", "8.8.8.8"} {
				out = append(out, netip.AddrPortFrom(addr(a), f.Port))
			}
		}
	}
	return out
}

// expected says in words what a trace says.
func expected(tr plan.Trace) string {
	if tr.Verdict != plan.Forward {
		return tr.Verdict.String()
	}
	var list []string
	for _, e := range tr.Endpoints {
		masq := tr.Masquerades(e)
		list = append(list, fmt.Sprintf("%s masq=%t", e, masq))
	}
	return strings.Join(list, ", ")
}

// newTraveller is a packet for which the random match of this number holds first.
func newTraveller(p *plan.Plan, packet plan.Packet, choice int) *traveller {
	return &traveller{
		src: packet.Source, dst: packet.Destination.Addr(), port: int(packet.Destination.Port()),
		proto: strings.ToLower(string(packet.Protocol)), iface: packet.Interface, choice: choice,
		local: append(slices.Clone(p.Config().Node.Addresses), addr("172.17.0.1")),
	}
}

// follow says in the same words what the rules do, for every choice that they can make.
func follow(set ruleset, p *plan.Plan, packet plan.Packet) string {
	fromNode := packet.Interface == ""
	var list []string
	for choice := 0; ; choice++ {
		tr := newTraveller(p, packet, choice)
		set.travel(tr, fromNode)
		switch {
		case tr.verdict != "":
			return strings.ToLower(tr.verdict)
		case !tr.sent:
			return "pass"
		}
		list = append(list, fmt.Sprintf("%s masq=%t", netip.AddrPortFrom(tr.dst, uint16(tr.port)), tr.masq))
		if !tr.chosen {
			return strings.Join(list, ", ")
		}
	}
}

const (
	vips      = "10.96.0.50 fd00:96::50"
	localEPs  = "10.200.1.1:8080@n1 10.200.1.2:8080@n1 [fd00:200:1::1]:8080@n1"
	remoteEPs = "10.200.2.1:8080@n2 [fd00:200:2::1]:8080@n2"
	hostEPs   = "192.0.2.10:8080@n1 [2001:db8:1::10]:8080@n1"
)

func restricted(prefixes ...string) func(*service.Service) {
	return func(s *service.Service) {
		for _, p := range prefixes {
			s.IPv4.SourceRanges = append(s.IPv4.SourceRanges, prefix(p))
		}
	}
}

// TestRulesDoWhatTheTraceSays compares the rules with the executable specification, for
// every row of the decision table, every origin, family and protocol.
func TestRulesDoWhatTheTraceSays(t *testing.T) {
	const all = localEPs + " " + remoteEPs + " " + hostEPs
	tests := []struct {
		name    string
		eps     string
		changes []func(*service.Service)
	}{
		{"F13 policy Cluster", all, nil},
		{"F10 #26 no endpoints", "", nil},
		{"#26 Local external policy, no endpoints", "", []func(*service.Service){externalLocal}},
		{"#26 Local external policy, here and elsewhere", all, []func(*service.Service){externalLocal}},
		{"F12 #7 #26 Local external policy, none here", remoteEPs, []func(*service.Service){externalLocal}},
		{"#26 Local internal policy", all, []func(*service.Service){internalLocal}},
		{"F11 #26 Local internal policy, none here", remoteEPs, []func(*service.Service){internalLocal}},
		{"both policies Local", all, []func(*service.Service){internalLocal, externalLocal}},
		{"#13 affinity with Local external policy", all, []func(*service.Service){externalLocal, affine}},
		{"F14 source ranges", all, []func(*service.Service){restricted("198.51.100.0/25", "10.200.1.0/24")}},
		{"F15 source ranges come before reject", "", []func(*service.Service){restricted("198.51.100.0/24")}},
		{"F14 source ranges with Local external policy, none here", remoteEPs, []func(*service.Service){externalLocal, restricted("198.51.100.0/24")}},
		{"F16 source range with the node", all, []func(*service.Service){restricted("192.0.2.0/24")}},
		{"#17 protocols on one number", all, []func(*service.Service){protocols(corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)}},
	}
	configs := map[string]func(*plan.Config){
		"pods by range":     func(*plan.Config) {},
		"pods by interface": func(c *plan.Config) { c.Node.PodCIDRs, c.PodInterfaces = nil, []string{"veth*"} },
		"pods by two ranges": func(c *plan.Config) {
			c.Node.PodCIDRs = append(c.Node.PodCIDRs, prefix("10.201.1.0/24"), prefix("fd00:201:1::/64"))
		},
		"no detector": func(c *plan.Config) { c.Node.PodCIDRs = nil },
		"F31 masquerade all": func(c *plan.Config) {
			c.MasqueradeAll = true
		},
		"NodePorts everywhere": func(c *plan.Config) {
			c.NodePortAddresses = plan.NodePortSelector{All: true}
			c.Node.Addresses = append(c.Node.Addresses, addr("172.17.0.1"))
		},
	}
	for _, tt := range tests {
		for name, configure := range configs {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				cfg := node()
				configure(&cfg)
				changes := append([]func(*service.Service){external}, tt.changes...)
				p := planOf(cfg, with(app{name: "svc1", vip: vips, eps: tt.eps, changes: changes}))
				compareWithTrace(t, p, Options{}, "10.96.7.7:80", "[fd00:96::77]:80", "8.8.8.8:80")
			})
		}
	}
}

// TestEndpointAtTheAddressOfItsFrontend has endpoints to which a packet is translated without a change.
func TestEndpointAtTheAddressOfItsFrontend(t *testing.T) {
	tests := []struct {
		name, at string
		eps      string
		changes  []func(*service.Service)
	}{
		{"here", "192.0.2.10", hostEPs, nil},
		{"here, with source ranges", "192.0.2.10", hostEPs, []func(*service.Service){restricted("198.51.100.0/24")}},
		{"here and elsewhere, with source ranges", "192.0.2.10", hostEPs + " " + remoteEPs, []func(*service.Service){restricted("198.51.100.0/24", "192.0.2.0/24")}},
		{"here and elsewhere, Local, with source ranges", "192.0.2.10", hostEPs + " " + remoteEPs, []func(*service.Service){externalLocal, restricted("198.51.100.0/24")}},
		{"elsewhere, Local", "203.0.113.9", "203.0.113.9:8080@n2", []func(*service.Service){externalLocal}},
		{"elsewhere, Local, with source ranges", "203.0.113.9", "203.0.113.9:8080@n2", []func(*service.Service){externalLocal, restricted("10.200.1.0/24")}},
	}
	for _, tt := range tests {
		t.Run("fault F08b "+tt.name, func(t *testing.T) {
			changes := append([]func(*service.Service){func(s *service.Service) {
				s.Ports[0].Port, s.Ports[0].NodePort = 8080, 30080
				s.IPv4.LoadBalancerIPs = []netip.Addr{addr(tt.at)}
			}}, tt.changes...)
			p := planOf(node(), with(app{name: "svc1", vip: vips, eps: tt.eps, changes: changes}))
			compareWithTrace(t, p, Options{})
		})
	}
}

func TestExactAddressBeatsNodePort(t *testing.T) {
	onNode := func(s *service.Service) {
		s.Ports[0].Port = 30080
		s.IPv4.ExternalIPs = []netip.Addr{addr("192.0.2.10")}
		s.ExternalLocal = true
	}
	nodePort := func(s *service.Service) { s.Ports[0].NodePort = 30080 }
	for _, eps := range []string{"", remoteEPs, localEPs} {
		p := planOf(node(), with(
			app{name: "exact", vip: "10.96.0.60", eps: eps, changes: []func(*service.Service){onNode}},
			app{name: "nodeport", vip: "10.96.0.61", eps: localEPs, changes: []func(*service.Service){nodePort}},
		))
		compareWithTrace(t, p, Options{})
	}
}
