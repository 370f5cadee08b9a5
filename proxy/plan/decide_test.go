package plan_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// policies gives a Service the policies of a row in D.7, as in "L/C/yes".
func policies(row string) func(*service.Service) {
	return func(s *service.Service) {
		s.InternalLocal, s.ExternalLocal = row[0] == 'L', row[2] == 'L'
		if row[4:] == "yes" {
			vip("5.5.5.5")(s)
			nodePort(30080)(s)
		}
	}
}

func TestVerdicts(t *testing.T) {
	const cip, lb, np = "10.96.0.10:80", "5.5.5.5:80", "192.168.0.2:30080"
	tests := []struct {
		name, policy string
		eps          *endpoints.Set
		cip          string // of every client
		x, p, h      string // external frontends; "" if there are none
		noDetector   bool
	}{
		{name: "D47 not ready at all", policy: "C/C/yes", eps: eps("a N", "b N loc"), cip: "reject", x: "reject", p: "reject", h: "reject"},
		{name: "D48 E05 internal Local, none local", policy: "L/C/no", eps: eps("a R", "b R"), cip: "drop"},
		{name: "D49 external Local, one local", policy: "C/L/yes", eps: eps("a R", "b R loc"), cip: "a b", x: "b", p: "a b", h: "a b masq"},
		{name: "D50 E09 #7 external Local, none local", policy: "C/L/yes", eps: eps("a R", "b R"), cip: "a b", x: "drop", p: "a b", h: "a b masq"},
		{name: "D51 both Local, none local", policy: "L/L/yes", eps: eps("a R", "b R"), cip: "drop", x: "drop", p: "a b", h: "a b masq"},
		{name: "D52 internal Local only, none local", policy: "L/C/yes", eps: eps("a R", "b R"), cip: "drop", x: "a b masq", p: "a b masq", h: "a b masq"},
		{name: "D53 external Local, terminating local", policy: "C/L/yes", eps: eps("a R", "b T loc"), cip: "a", x: "b", p: "a", h: "a masq"},
		{name: "D54 without a detector pods are outside", policy: "C/L/yes", eps: eps("a R", "b R"), cip: "a b", x: "drop", p: "drop", h: "a b masq", noDetector: true},
		{name: "D55 only dead ones", policy: "C/L/yes", eps: eps("a X", "b X loc"), cip: "reject", x: "reject", p: "reject", h: "reject"},
		{name: "E04 E10 #7 no endpoints", policy: "C/L/yes", cip: "reject", x: "reject", p: "reject", h: "reject"},
		{name: "E06 internal Local, one local", policy: "L/C/no", eps: eps("a R loc", "b R"), cip: "a"},
		{name: "E07 external Cluster", policy: "C/C/yes", eps: eps("a R", "b R loc"), cip: "a b", x: "a b masq", p: "a b masq", h: "a b masq"},
		{name: "E08 external Local, a local", policy: "C/L/yes", eps: eps("a R loc", "b R"), cip: "a b", x: "a", p: "a b", h: "a b masq"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config()
			if tt.noDetector {
				cfg.Node.PodCIDRs = nil
			}
			p := build(cfg, svc(policies(tt.policy)), tt.eps)
			want := map[string]string{"P " + cip: tt.cip}
			for _, source := range []string{"X", "H"} {
				want[source+" "+cip] = tt.cip
				if forwards(tt.cip) && !tt.noDetector {
					want[source+" "+cip] = tt.cip + " masq"
				}
			}
			if tt.x != "" {
				for _, dst := range []string{lb, np} {
					want["X "+dst], want["P "+dst], want["H "+dst] = tt.x, tt.p, tt.h
				}
			}
			checkPackets(t, p, want)
		})
	}
}

func forwards(s string) bool { return s != "drop" && s != "reject" }

// TestDropOrReject goes through the input of #26: policies, endpoints, frontends
// and protocols.
func TestDropOrReject(t *testing.T) {
	sets := map[string]*endpoints.Set{
		"none":   nil,
		"remote": epsOf("p80", tcp, "a R"),
		"local":  epsOf("p80", tcp, "a R", "b R loc"),
	}
	tests := []struct{ policy, eps, cip, ext string }{
		{"C/C/yes", "none", "reject", "reject"},
		{"C/C/yes", "remote", "a masq", "a masq"},
		{"C/C/yes", "local", "a b masq", "a b masq"},
		{"L/L/yes", "none", "reject", "reject"},
		{"L/L/yes", "remote", "drop", "drop"},
		{"L/L/yes", "local", "b masq", "b"},
	}
	for _, tt := range tests {
		t.Run("#26 "+tt.policy+" "+tt.eps, func(t *testing.T) {
			p := build(config(), svc(policies(tt.policy), externalIP("9.9.9.9")), sets[tt.eps])
			checkPackets(t, p, map[string]string{
				"X 10.96.0.10:80": tt.cip, "X 5.5.5.5:80": tt.ext, "X 9.9.9.9:80": tt.ext, "X 192.168.0.2:30080": tt.ext,
			})
		})
	}
	t.Run("#26 UDP without endpoints", func(t *testing.T) {
		p := build(config(), svc(policies("L/L/yes"), proto(udp)))
		checkPackets(t, p, map[string]string{"X 10.96.0.10:80/udp": "reject", "X 5.5.5.5:80/udp": "reject", "X 192.168.0.2:30080/udp": "reject"})
	})
}

// TestDecisionTable states every row of the table, with and without footnotes.
func TestDecisionTable(t *testing.T) {
	type actions = [plan.NumOrigins]string
	kinds := []plan.FrontendKind{plan.ExternalIP, plan.LoadBalancerIP, plan.NodePort}
	tests := []struct {
		name, policy, mode string
		eps                *endpoints.Set
		cip, ext           actions
	}{
		{"Cluster", "C/C", "", eps("a R", "b R loc"), actions{"cluster", "cluster+masq", "cluster+masq"}, actions{"cluster+masq", "cluster+masq", "cluster+masq"}},
		{"E16 Cluster, masquerade all", "C/C", "all", eps("a R", "b R loc"), actions{"cluster+masq", "cluster+masq", "cluster+masq"}, actions{"cluster+masq", "cluster+masq", "cluster+masq"}},
		{"E17 K17 Cluster, no detector", "C/C", "none", eps("a R", "b R loc"), actions{"cluster", "cluster", "cluster"}, actions{"cluster+masq", "cluster+masq", "cluster+masq"}},
		{"Local, has local", "L/L", "", eps("a R", "b R loc"), actions{"local", "local+masq", "local+masq"}, actions{"cluster", "cluster+masq", "local"}},
		{"E16 Local, masquerade all", "L/L", "all", eps("a R", "b R loc"), actions{"local+masq", "local+masq", "local+masq"}, actions{"cluster", "cluster+masq", "local"}},
		{"E17 Local, no detector", "L/L", "none", eps("a R", "b R loc"), actions{"local", "local", "local"}, actions{"local", "cluster+masq", "local"}},
		{"E17 D54 Local, none local, no detector", "C/L", "none", eps("a R"), actions{"cluster", "cluster", "cluster"}, actions{"drop", "cluster+masq", "drop"}},
		{"Local, none local", "L/L", "", eps("a R"), actions{"drop", "drop", "drop"}, actions{"cluster", "cluster+masq", "drop"}},
		{"nothing usable", "C/C", "", eps("a N", "b X loc"), actions{"reject", "reject", "reject"}, actions{"reject", "reject", "reject"}},
		{"nothing usable, Local, masquerade all", "L/L", "all", nil, actions{"reject", "reject", "reject"}, actions{"reject", "reject", "reject"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config()
			cfg.MasqueradeAll = tt.mode == "all"
			if tt.mode == "none" {
				cfg.Node.PodCIDRs = nil
			}
			p := build(cfg, svc(policies(tt.policy+"/yes"), externalIP("9.9.9.9")), tt.eps)
			want := map[string]actions{"ClusterIP": tt.cip}
			for _, k := range kinds {
				want[k.String()] = tt.ext
			}
			got := map[string]actions{}
			for _, f := range p.Port(key("ns1/svc1:p80", v4)).Frontends {
				var a actions
				for o := range a {
					a[o] = fmt.Sprint(f.Actions[o])
				}
				got[f.Kind.String()] = a
			}
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("actions (-want +got):\n%s", d)
			}
		})
	}
}

func TestPools(t *testing.T) {
	tests := []struct {
		name, policy                       string
		eps                                *endpoints.Set
		cluster, local, reachable, serving string
	}{
		{"#22 ready beats terminating", "C/L/yes", eps("a R", "b T"), "a", "", "a", "a b"},
		{"#22 terminating serves alone", "C/C/no", eps("a T"), "a", "", "a", "a"},
		{"#22 dead ones are out", "C/C/no", eps("a T", "b X"), "a", "", "a", "a"},
		{"#22 unready", "C/C/no", eps("a N"), "", "", "", ""},
		{"#22 local terminating beats remote ready", "C/L/yes", eps("a R", "b T loc"), "a", "b", "a b", "a b"},
		{"#12 a terminating endpoint is not for new connections", "C/C/no", eps("a T", "b R"), "b", "", "b", "a b"},
		{"#12 two terminating ones are", "C/C/no", eps("a T", "b T"), "a b", "", "a b", "a b"},
		{"#30 ready wins over terminating", "C/C/no", eps("a P", "b R"), "a b", "", "a b", "a b"},
		{"serving counts whatever policies say", "L/C/no", eps("a R", "b R loc", "c S"), "", "b", "b", "a b c"},
		{"serving counts whatever hints say", "C/C/no", eps("a R z:za", "b R z:zb"), "a", "", "a", "a b"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := build(config(), svc(policies(tt.policy)), tt.eps).Port(key("ns1/svc1:p80", v4))
			got := [4]string{letters(p.Cluster), letters(p.Local), letters(p.Reachable), letters(p.Serving)}
			if want := [4]string{tt.cluster, tt.local, tt.reachable, tt.serving}; got != want {
				t.Errorf("cluster, local, reachable, serving = %q, want %q", got, want)
			}
		})
	}
}

func TestAffinityIsPerPort(t *testing.T) {
	two := svc(policies("C/L/yes"), func(s *service.Service) {
		s.AffinityTimeout = 10800e9
		s.Ports = append(s.Ports, service.Port{Name: "p81", Protocol: tcp, Port: 81})
	})
	p := build(config(), two, eps("a R loc", "b R loc", "c R"))
	t.Run("#86 each port has a timeout of its own", func(t *testing.T) {
		for _, k := range []string{"ns1/svc1:p80", "ns1/svc1:p81"} {
			if got := p.Port(key(k, v4)).AffinityTimeout; got != 10800e9 {
				t.Errorf("timeout of %s = %s, want 3h", k, got)
			}
		}
	})
	t.Run("#13 affinity does not widen the local pool", func(t *testing.T) {
		checkPackets(t, p, map[string]string{"X 5.5.5.5:80": "a b", "X 192.168.0.2:30080": "a b"})
	})
}
