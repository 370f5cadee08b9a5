package plan_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

func checked(s *service.Service) { s.HealthCheckNodePort = 31000 }

func TestHealth(t *testing.T) {
	two := func(f ...string) *endpoints.Set {
		m := map[endpoints.Key][]endpoints.Endpoint{}
		for _, p := range []string{"p80", "p443", "unknown"} {
			e := endpoint(f[0], v4)
			if p == "p443" {
				e.Addr = netip.AddrPortFrom(e.Addr.Addr(), 8443)
			}
			m[endpoints.Key{Port: p, Protocol: tcp, Family: v4}] = []endpoints.Endpoint{e}
		}
		return endpoints.NewSet(m)
	}
	unknown := endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{{Port: "unknown", Protocol: udp, Family: v6}: {endpoint("a R loc", v6)}})
	stale := endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{
		{Port: "p80", Protocol: tcp, Family: v4}: {endpoint("a R", v4)},
		{Port: "p80", Protocol: tcp, Family: v6}: {endpoint("a R loc", v6)},
	})
	tests := []struct {
		name string
		set  *endpoints.Set
		want string
	}{
		{"C19 one pod behind two ports", two("a R loc"), "[10.180.0.1]"},
		{"C20 terminating only", eps("a T loc"), "[]"},
		{"ready although terminating", epsOf("p80", tcp, "a P loc"), "[10.180.0.1 fd00:180::1]"},
		{"remote only", eps("a R"), "[]"},
		{"not ready", eps("a N loc", "b S loc"), "[]"},
		{"both families", eps("a R loc", "b R"), "[10.180.0.1 fd00:180::1]"},
		{"a port name that the Service does not have", unknown, "[fd00:180::1]"},
		{"none", nil, "[]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := build(config(), svc(policies("C/L/yes"), checked, dualStack), tt.set)
			h, ok := p.Health(named("ns1/svc1"))
			if !ok || h.Port != 31000 || fmt.Sprint(h.Local) != tt.want {
				t.Errorf("health is %+v, %t; want port 31000, %s", h, ok, tt.want)
			}
		})
	}
	t.Run("fault F08c slices of a family that the Service does not have", func(t *testing.T) {
		p := build(config(), svc(policies("C/L/yes"), checked), stale)
		if h, _ := p.Health(named("ns1/svc1")); len(h.Local) != 0 {
			t.Errorf("local addresses are %v, want none", h.Local)
		}
	})
	t.Run("no node name makes nothing local", func(t *testing.T) {
		cfg := config()
		cfg.Node.Name = ""
		p := build(cfg, svc(checked), endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{
			{Port: "p80", Protocol: tcp, Family: v4}: {{Addr: netip.MustParseAddrPort("10.180.0.1:80"), Ready: true, Serving: true}},
		}))
		if h, _ := p.Health(named("ns1/svc1")); len(h.Local) != 0 {
			t.Errorf("local addresses are %v, want none", h.Local)
		}
	})
}

// TestHealthByFamily asks on addresses of both families.
func TestHealthByFamily(t *testing.T) {
	mixed := endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{
		{Port: "p80", Protocol: tcp, Family: v4}: {endpoint("a R", v4)},
		{Port: "p80", Protocol: tcp, Family: v6}: {endpoint("a R loc", v6), endpoint("b R loc", v6)},
	})
	only6 := func(s *service.Service) { s.IPv4, s.IPv6.ClusterIP = service.Addresses{}, addr("fd00:96::10") }
	tests := []struct {
		name     string
		svc      *service.Service
		set      *endpoints.Set
		on4, on6 string
	}{
		{"fault F08c the other family's endpoints do not count", svc(checked, dualStack), mixed, "[]", "[fd00:180::1 fd00:180::2]"},
		{"each family has its own", svc(checked, dualStack), eps("a R loc"), "[10.180.0.1]", "[fd00:180::1]"},
		{"fault F08c an address of a family that the Service does not have", svc(checked), eps("a R loc"), "[10.180.0.1]", "[10.180.0.1]"},
		{"an IPv6 Service", svc(checked, only6), mixed, "[fd00:180::1 fd00:180::2]", "[fd00:180::1 fd00:180::2]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, _ := build(config(), tt.svc, tt.set).Health(named("ns1/svc1"))
			if on4, on6 := fmt.Sprint(h.LocalFor(v4)), fmt.Sprint(h.LocalFor(v6)); on4 != tt.on4 || on6 != tt.on6 {
				t.Errorf("on an IPv4 address %s, on an IPv6 address %s; want %s and %s", on4, on6, tt.on4, tt.on6)
			}
		})
	}
}

func TestHealthDiff(t *testing.T) {
	p := build(config(), svc(checked), eps("a R loc"), svc(name("ns1/svc2"), clusterIP("10.96.0.11")))
	cfg := config()
	cfg.Node.Name = "n2"
	tests := []struct {
		name string
		in   plan.Input
		want string
	}{
		{"another local endpoint", onlySet("ns1/svc1", eps("b R loc")), "[ns1/svc1]"},
		{"a remote endpoint more", onlySet("ns1/svc1", eps("a R loc", "b R")), "[]"},
		{"another port", only("ns1/svc1", svc(func(s *service.Service) { s.HealthCheckNodePort = 31001 })), "[ns1/svc1]"},
		{"fault F08c another family", only("ns1/svc1", svc(checked, dualStack)), "[ns1/svc1]"},
		{"no port", only("ns1/svc1", svc()), "[ns1/svc1]"},
		{"no Service", only("ns1/svc1", nil), "[ns1/svc1]"},
		{"a port at another Service", only("ns1/svc2", svc(checked, clusterIP("10.96.0.11"))), "[ns1/svc2]"},
		{"another node name", plan.Input{Config: &cfg}, "[ns1/svc1]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, d := p.Update(tt.in); fmt.Sprint(d.Health) != tt.want {
				t.Errorf("health differs of %v, want %s", d.Health, tt.want)
			}
		})
	}
	for _, n := range []string{"ns1/svc2", "ns1/none"} {
		if h, ok := p.Health(named(n)); ok {
			t.Errorf("health of %s is %+v, want none", n, h)
		}
	}
	n := 0
	for h := range p.AllHealth() {
		n++
		if h.Name != named("ns1/svc1") {
			t.Errorf("health of %s", h.Name)
		}
	}
	if n != 1 {
		t.Errorf("%d Services with health, want 1", n)
	}
}
