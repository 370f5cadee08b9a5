package iptables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

func addr(s string) netip.Addr         { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix     { return netip.MustParsePrefix(s) }
func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// node is n1 with one address and one range of pods in each family.
func node() plan.Config {
	return plan.Config{
		Node: plan.Node{
			Name:      "n1",
			Addresses: []netip.Addr{addr("192.0.2.10"), addr("2001:db8:1::10")},
			PodCIDRs:  []netip.Prefix{prefix("10.200.1.0/24"), prefix("fd00:200:1::/64")},
		},
		ServiceCIDRs: []netip.Prefix{prefix("10.96.0.0/16"), prefix("fd00:96::/64")},
	}
}

// An app is a Service ns1/NAME with one port p80, 80/TCP, and its endpoints.
type app struct {
	name    string
	vip     string // ClusterIPs, by spaces
	eps     string // as in "10.200.1.1:8080@n1 10.200.2.1:8080", by spaces
	changes []func(*service.Service)
}

func nameOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns1", Name: name}
}

func with(apps ...app) plan.Input {
	in := plan.Input{
		Services:  make(map[types.NamespacedName]*service.Service),
		Endpoints: make(map[types.NamespacedName]*endpoints.Set),
	}
	for _, a := range apps {
		s := a.service()
		in.Services[s.Name], in.Endpoints[s.Name] = s, endpointsOf(s, a.eps)
	}
	return in
}

func without(names ...string) plan.Input {
	in := plan.Input{Services: make(map[types.NamespacedName]*service.Service)}
	for _, n := range names {
		in.Services[nameOf(n)] = nil
	}
	return in
}

func (a app) service() *service.Service {
	s := &service.Service{Name: nameOf(a.name), Ports: []service.Port{{Name: "p80", Protocol: corev1.ProtocolTCP, Port: 80}}}
	for text := range strings.FieldsSeq(a.vip) {
		if ip := addr(text); ip.Is4() {
			s.IPv4.ClusterIP = ip
		} else {
			s.IPv6.ClusterIP = ip
		}
	}
	for _, change := range a.changes {
		change(s)
	}
	return s
}

// endpointsOf gives every port of a Service the same endpoints.
func endpointsOf(s *service.Service, eps string) *endpoints.Set {
	lists := make(map[endpoints.Key][]endpoints.Endpoint)
	for text := range strings.FieldsSeq(eps) {
		at, on, _ := strings.Cut(text, "@")
		e := endpoints.Endpoint{Addr: netip.MustParseAddrPort(at), Ready: true, Serving: true, NodeName: on, Weight: 1}
		k := endpoints.Key{Family: corev1.IPv6Protocol}
		if e.Addr.Addr().Is4() {
			k.Family = corev1.IPv4Protocol
		}
		for _, p := range s.Ports {
			k.Port, k.Protocol = p.Name, p.Protocol
			lists[k] = append(lists[k], e)
		}
	}
	return endpoints.NewSet(lists)
}

// Changes to the Service of an app.

func external(s *service.Service) {
	s.Ports[0].NodePort = 30080
	s.IPv4.ExternalIPs = []netip.Addr{addr("203.0.113.50")}
	s.IPv4.LoadBalancerIPs = []netip.Addr{addr("203.0.113.40")}
	s.IPv6.LoadBalancerIPs = []netip.Addr{addr("2001:db8:9::40")}
}

func externalLocal(s *service.Service) { s.ExternalLocal = true }
func internalLocal(s *service.Service) { s.InternalLocal = true }
func affine(s *service.Service)        { s.AffinityTimeout = time.Hour }

func protocols(list ...corev1.Protocol) func(*service.Service) {
	return func(s *service.Service) {
		s.Ports = nil
		for _, p := range list {
			s.Ports = append(s.Ports, service.Port{Name: "p-" + strings.ToLower(string(p)), Protocol: p, Port: 80})
		}
	}
}

// planOf returns the plan of a node with some input.
func planOf(cfg plan.Config, in plan.Input) *plan.Plan {
	p, _ := plan.New(cfg).Update(in)
	return p
}

// render returns the text for a plan.
func render(tb testing.TB, p *plan.Plan, o Options) string {
	tb.Helper()
	text, err := Render(p, o)
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

// many is n Services with eps endpoints each, the first of them on the node, with
// consecutive ClusterIPs.
func many(n, eps int) plan.Input {
	in := with()
	for i := range n {
		a := app{name: fmt.Sprintf("svc%d", i), vip: manyVIP(i).String()}
		var list []string
		for e := range eps {
			list = append(list, manyEndpoint(i, e))
		}
		a.eps = strings.Join(list, " ")
		s := a.service()
		in.Services[s.Name], in.Endpoints[s.Name] = s, endpointsOf(s, a.eps)
	}
	return in
}

func manyVIP(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(96 + i/65536), byte(i / 256), byte(i)})
}

// manyEndpoint has pods on other nodes, but the first of every hundredth Service.
func manyEndpoint(i, e int) string {
	n := i*16 + e
	if e == 0 && i%100 == 0 {
		return fmt.Sprintf("10.200.1.%d:8080@n1", i/100%250+1)
	}
	return fmt.Sprintf("10.%d.%d.%d:8080@n2", 128+n>>16, n>>8&255, n&255)
}

// everything has Services of many kinds.
func everything() plan.Input {
	health := func(s *service.Service) { s.HealthCheckNodePort = 31000 }
	return with(
		app{name: "a", vip: vips, eps: localEPs + " " + remoteEPs + " " + hostEPs, changes: []func(*service.Service){external, externalLocal, affine, restricted("198.51.100.0/24"), health}},
		app{name: "b", vip: "10.96.0.51 fd00:96::51", changes: []func(*service.Service){protocols(corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)}},
		app{name: "c", vip: "10.96.0.52 fd00:96::52", eps: remoteEPs, changes: []func(*service.Service){
			protocols(corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP), internalLocal,
		}},
	)
}
