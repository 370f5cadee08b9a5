package plan_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// only is an Input with one Service, which may be nil, under its name.
func only(n string, s *service.Service) plan.Input {
	return plan.Input{Services: map[types.NamespacedName]*service.Service{named(n): s}}
}

func onlySet(n string, s *endpoints.Set) plan.Input {
	return plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{named(n): s}}
}

// frontends lists every frontend of a plan: "10.96.0.10:80/TCP ns1/svc1:p80 v4".
func frontends(p *plan.Plan) string {
	var lines []string
	for port := range p.All() {
		for _, f := range port.Frontends {
			lines = append(lines, fmt.Sprintf("%s/%s=%s", &f, port.Protocol, port.Port))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, " ")
}

func TestServiceUpdates(t *testing.T) {
	ports := func(list ...service.Port) func(*service.Service) { return func(s *service.Service) { s.Ports = list } }
	http := service.Port{Name: "http", Protocol: tcp, Port: 80, NodePort: 30080}
	with := func(change func(*service.Port)) service.Port { p := http; change(&p); return p }
	two := service.Port{Name: "two", Protocol: tcp, Port: 443}
	steps := []struct {
		name string
		svc  *service.Service
		want string
		diff string
	}{
		{"start", svc(ports(http, two), externalIP("9.9.9.9")), "10.96.0.10:443/TCP=two 10.96.0.10:80/TCP=http 9.9.9.9:443/TCP=two 9.9.9.9:80/TCP=http :30080/TCP=http", "ns1/svc1:http ns1/svc1:two"},
		{"#18 d one of two ports goes", svc(ports(http), externalIP("9.9.9.9")), "10.96.0.10:80/TCP=http 9.9.9.9:80/TCP=http :30080/TCP=http", "ns1/svc1:two"},
		{"#18 f the external IP goes", svc(ports(http)), "10.96.0.10:80/TCP=http :30080/TCP=http", "ns1/svc1:http"},
		{"#18 c another node port", svc(ports(with(func(p *service.Port) { p.NodePort = 30081 }))), "10.96.0.10:80/TCP=http :30081/TCP=http", "ns1/svc1:http"},
		{"#18 g no node port", svc(ports(with(func(p *service.Port) { p.NodePort = 0 }))), "10.96.0.10:80/TCP=http", "ns1/svc1:http"},
		{"#18 a another port", svc(ports(service.Port{Name: "http", Protocol: tcp, Port: 81})), "10.96.0.10:81/TCP=http", "ns1/svc1:http"},
		{"#18 b another port name", svc(ports(service.Port{Name: "web", Protocol: tcp, Port: 81})), "10.96.0.10:81/TCP=web", "ns1/svc1:http ns1/svc1:web"},
		{"#18 h another protocol", svc(ports(service.Port{Name: "web", Protocol: udp, Port: 81})), "10.96.0.10:81/UDP=web", "ns1/svc1:web ns1/svc1:web"},
		{"the same again", svc(ports(service.Port{Name: "web", Protocol: udp, Port: 81})), "10.96.0.10:81/UDP=web", ""},
		{"#69 C18 the Service goes", nil, "", "ns1/svc1:web"},
		{"#69 and comes again", svc(ports(service.Port{Name: "web", Protocol: udp, Port: 81})), "10.96.0.10:81/UDP=web", "ns1/svc1:web"},
	}
	p := build(config())
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			var d plan.Diff
			p, d = p.Update(only("ns1/svc1", s.svc))
			if got := frontends(p); got != s.want {
				t.Errorf("frontends are %q, want %q", got, s.want)
			}
			if got := keys(d.Ports); got != s.diff {
				t.Errorf("changed ports are %q, want %q", got, s.diff)
			}
		})
	}
}

func TestReplacedInOneBatch(t *testing.T) {
	old := svc(created(1))
	p := build(config(), old, eps("a R"))
	t.Run("#19 same name", func(t *testing.T) {
		again, _ := p.Update(only("ns1/svc1", svc(created(9))))
		checkPackets(t, again, map[string]string{"P 10.96.0.10:80": "a"})
	})
	t.Run("#19 another name takes the address", func(t *testing.T) {
		in := input(svc(name("ns1/new"), created(9)), eps("b R"))
		in.Services[old.Name] = nil
		other, _ := p.Update(in)
		checkPackets(t, other, map[string]string{"P 10.96.0.10:80": "b"})
	})
	t.Run("#19 the add comes before the delete", func(t *testing.T) {
		both, _ := p.Update(input(svc(name("ns1/new"), created(9)), eps("b R")))
		checkPackets(t, both, map[string]string{"P 10.96.0.10:80": "a"})
		last, _ := both.Update(only("ns1/svc1", nil))
		checkPackets(t, last, map[string]string{"P 10.96.0.10:80": "b"})
	})
}

func TestEndpointsAndServiceComeApart(t *testing.T) {
	p, d := plan.New(config()).Update(onlySet("ns1/svc1", eps("a R")))
	if p.Len() != 0 || len(d.Ports) != 0 {
		t.Errorf("endpoints without Service make %d ports, %v", p.Len(), d)
	}
	p, _ = p.Update(only("ns1/svc1", svc()))
	checkPackets(t, p, map[string]string{"P 10.96.0.10:80": "a"})
	p, _ = p.Update(only("ns1/svc1", nil))
	if p.Len() != 0 {
		t.Errorf("%d ports without Service", p.Len())
	}
	p, _ = p.Update(only("ns1/svc1", svc()))
	t.Run("C18 endpoints stay when the Service goes", func(t *testing.T) {
		checkPackets(t, p, map[string]string{"P 10.96.0.10:80": "a"})
	})
	p, _ = p.Update(onlySet("ns1/svc1", nil))
	checkPackets(t, p, map[string]string{"P 10.96.0.10:80": "reject"})
}

func TestDiffOfEndpoints(t *testing.T) {
	udpSvc := svc(proto(udp))
	tests := []struct {
		name          string
		svc           *service.Service
		before, after *endpoints.Set
		want          string
	}{
		{"C16 scaled to zero", udpSvc, epsOf("p80", udp, "a R"), nil, "ns1/svc1:p80"},
		{"C17 TCP endpoint more", svc(), eps("a R"), eps("a R", "b R"), "ns1/svc1:p80"},
		{"equal sets", svc(), eps("a R", "b T"), eps("a R", "b T"), ""},
		{"#30 an endpoint becomes unusable", svc(), eps("a R", "b R"), eps("a R", "b X"), "ns1/svc1:p80"},
		{"#30 a dead endpoint goes", svc(), eps("a R", "b X"), eps("a R"), ""},
		{"#30 an endpoint leaves the zone", svc(), eps("a R z:za", "b R z:za"), eps("a R z:za", "b R z:zb"), "ns1/svc1:p80"},
		{"#18 e another port of an endpoint", svc(), eps("a R"), onPort9090(), "ns1/svc1:p80"},
		{"another port name", svc(), epsOf("x", tcp, "a R"), epsOf("x", tcp, "b R"), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, d := build(config(), tt.svc, tt.before).Update(onlySet("ns1/svc1", tt.after))
			if got := keys(d.Ports); got != tt.want {
				t.Errorf("changed ports are %q, want %q\n%s", got, tt.want, p)
			}
		})
	}
}

func onPort9090() *endpoints.Set {
	e := endpoint("a R", v4)
	e.Addr = netip.AddrPortFrom(e.Addr.Addr(), 9090)
	return endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{{Port: "p80", Protocol: tcp, Family: v4}: {e}})
}

func TestUnchangedPortsAreShared(t *testing.T) {
	p := build(config(), svc(), eps("a R"), svc(name("ns1/svc2"), clusterIP("10.96.0.11")), eps("b R"))
	next, _ := p.Update(onlySet("ns1/svc1", eps("c R")))
	if k := key("ns1/svc2:p80", v4); next.Port(k) != p.Port(k) {
		t.Error("a port that did not change is another pointer")
	}
	checkPackets(t, p, map[string]string{"P 10.96.0.10:80": "a"})
	checkPackets(t, next, map[string]string{"P 10.96.0.10:80": "c"})
}

func TestNameIsThatOfTheMap(t *testing.T) {
	p, _ := plan.New(config()).Update(only("ns2/other", svc()))
	if p.Port(key("ns2/other:p80", v4)) == nil {
		t.Errorf("no port under the name of the map:\n%s", p)
	}
}

func TestLookup(t *testing.T) {
	p := build(config(), svc(dualStack, nodePort(30080), externalIP("9.9.9.9")), eps("a R"))
	if port, f := p.Lookup(netip.MustParseAddrPort("9.9.9.9:80"), tcp); port == nil || f.Kind != plan.ExternalIP {
		t.Errorf("9.9.9.9:80 is %v of %v", f, port)
	}
	for _, f := range []netip.AddrPort{netip.MustParseAddrPort("9.9.9.9:81"), netip.AddrPortFrom(netip.Addr{}, 30080), netip.MustParseAddrPort("0.0.0.0:30080")} {
		if port, _ := p.Lookup(f, tcp); port != nil {
			t.Errorf("%s is %v, want none", f, port)
		}
	}
	if port, f := p.LookupNodePort(v6, 30080, tcp); port == nil || port.Family != v6 || f.Kind != plan.NodePort {
		t.Errorf("node port 30080 in IPv6 is %v of %v", f, port)
	}
	if !p.IsClusterIP(addr("fd00:96::10")) || !p.IsClusterIP(addr("::ffff:10.96.0.10")) || p.IsClusterIP(addr("9.9.9.9")) {
		t.Error("IsClusterIP is wrong")
	}
}

func TestAllIsSorted(t *testing.T) {
	p := build(config(), svc(dualStack), svc(name("ns1/svc0"), clusterIP("10.96.0.1")), svc(name("ns0/z"), clusterIP("10.96.0.2")))
	var got []plan.Key
	for port := range p.All() {
		got = append(got, port.Key)
	}
	if !slices.IsSortedFunc(got, plan.Key.Compare) || len(got) != 4 || p.Len() != 4 {
		t.Errorf("ports are %v, %d", got, p.Len())
	}
	for port := range p.All() {
		if port.Key != got[0] {
			t.Error("All goes on after break")
		}
		break
	}
}
