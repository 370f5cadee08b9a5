package plan_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

func TestServesNodePorts(t *testing.T) {
	tests := []struct {
		name, values, addr string
		planned, local     bool // what the plan knows, and what is said of a local address
	}{
		{"primary", "primary", "10.0.0.5", true, true},
		{"another address of the node", "primary", "192.168.0.2", false, false},
		{"mapped into IPv6", "primary", "::ffff:10.0.0.5", true, false},
		{"all", "all", "192.168.0.2", true, true},
		{"all, an address that the Node object lacks", "all", "192.168.0.9", false, true},
		{"all, IPv6", "all", "fd00::9", false, true},
		{"all, loopback", "all", "127.0.0.1", false, false},
		{"all, link-local", "all", "169.254.7.7", false, false},
		{"all, IPv6 loopback", "all", "::1", false, false},
		{"all, IPv6 link-local", "all", "fe80::1", false, false},
		{"all and link-local by name", "all 169.254.0.0/16", "169.254.7.7", true, true},
		{"loopback by name", "localhost", "127.0.0.53", true, true},
		{"not an address", "all", "", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := nodeWith("10.0.0.5", "192.168.0.2", "169.254.7.7", "fd00::5", "fe80::1")
			cfg.NodePortAddresses = selector(t, strings.Fields(tt.values)...)
			p := plan.New(cfg)
			a, _ := netip.ParseAddr(tt.addr)
			f := v4
			if a.Is6() {
				f = v6
			}
			if got := p.ServesNodePorts(a); got != tt.planned {
				t.Errorf("ServesNodePorts(%s) = %v", a, got)
			}
			if got := p.NodePortAddresses(f).Serves(a); a.IsValid() && !a.Is4In6() && got != tt.local {
				t.Errorf("Serves(%s) = %v", a, got)
			}
		})
	}
}

func TestExcept(t *testing.T) {
	p := plan.New(plan.Config{NodePortAddresses: plan.NodePortSelector{All: true}})
	for f, want := range map[corev1.IPFamily][]netip.Prefix{
		v4: {netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("169.254.0.0/16")},
		v6: {netip.MustParsePrefix("::1/128"), netip.MustParsePrefix("fe80::/10")},
	} {
		n := p.NodePortAddresses(f)
		if !slices.Equal(n.Except, want) {
			t.Errorf("%s: Except is %v, want %v", f, n.Except, want)
		}
		if named := plan.New(plan.Config{}).NodePortAddresses(f); named.Except != nil || n.Equal(named) || !n.Equal(p.NodePortAddresses(f)) {
			t.Errorf("%s: without Any: %+v", f, named)
		}
	}
}

func TestMasquerades(t *testing.T) {
	const node = "192.0.2.1"
	cfg := plan.Config{Node: plan.Node{Name: "n1", Addresses: []netip.Addr{netip.MustParseAddr(node)}}}
	told := cfg
	told.Node.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.1.0.0/24")}
	tests := []struct {
		name            string
		cfg             plan.Config
		source, to      string
		endpointNode    string
		hairpin, endsOn bool
	}{
		{"another pod", told, "10.1.0.5", "10.1.0.6", "n1", false, false},
		{"a pod to itself", told, "10.1.0.5", "10.1.0.5", "n1", true, false},
		{"a pod to itself, wherever it is said to run", told, "10.1.0.5", "10.1.0.5", "n2", true, false},
		{"mapped into IPv6", told, "::ffff:10.1.0.5", "10.1.0.5", "n1", true, false},
		{"a client outside that is an endpoint elsewhere", told, "203.0.113.1", "203.0.113.1", "n2", false, false},
		{"a client outside that is an endpoint here", told, "203.0.113.1", "203.0.113.1", "n1", true, false},
		{"pods cannot be told apart", cfg, "203.0.113.1", "203.0.113.1", "n2", true, false},
		{"a pod to the node", told, "10.1.0.5", node, "n1", false, true},
		{"outside to the node", told, "203.0.113.1", node, "", false, true},
		{"the node to itself", told, node, node, "n1", true, false},
		{"loopback to the node", told, "127.0.0.1", node, "n1", false, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := plan.New(tt.cfg)
			e := &endpoints.Endpoint{Addr: netip.AddrPortFrom(netip.MustParseAddr(tt.to), 80), NodeName: tt.endpointNode}
			packet := plan.Packet{Source: netip.MustParseAddr(tt.source)}
			if got := p.IsHairpin(packet, e); got != tt.hairpin {
				t.Errorf("IsHairpin = %v", got)
			}
			if got := p.EndsOnNode(packet, e); got != tt.endsOn {
				t.Errorf("EndsOnNode = %v", got)
			}
			if got := p.Masquerades(packet, plan.Action{}, e); got != tt.hairpin {
				t.Errorf("Masquerades without the flag = %v", got)
			}
			if got := p.Masquerades(packet, plan.Action{Masquerade: true}, e); got != (tt.hairpin || !tt.endsOn) {
				t.Errorf("Masquerades with the flag = %v", got)
			}
		})
	}
}

func TestTraceMasquerades(t *testing.T) {
	other, exempt, hairpin := &endpoints.Endpoint{}, &endpoints.Endpoint{}, &endpoints.Endpoint{}
	for _, flag := range []bool{true, false} {
		trace := plan.Trace{Masquerade: flag, Exempt: []*endpoints.Endpoint{exempt}, Hairpin: []*endpoints.Endpoint{hairpin}}
		got := []bool{trace.Masquerades(other), trace.Masquerades(exempt), trace.Masquerades(hairpin)}
		if want := []bool{flag, false, true}; !slices.Equal(got, want) {
			t.Errorf("Masquerade %v: got %v, want %v", flag, got, want)
		}
	}
}

func TestHasEndpointAt(t *testing.T) {
	at := netip.MustParseAddrPort("192.0.2.7:80")
	p := &plan.Port{Reachable: []*endpoints.Endpoint{{Addr: at}}}
	for want, fe := range map[bool]*plan.Frontend{
		true:  {Addr: at.Addr(), Port: 80},
		false: {Addr: at.Addr(), Port: 81},
	} {
		if got := p.HasEndpointAt(fe); got != want {
			t.Errorf("HasEndpointAt(%s) = %v", fe, got)
		}
	}
	if p.HasEndpointAt(&plan.Frontend{Kind: plan.NodePort, Port: 80}) {
		t.Error("a NodePort has an endpoint at its address")
	}
}
