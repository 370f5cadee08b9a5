package conntrack_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/vipkit/vipkit/backends/conntrack"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// Flows of clients of ns1/dns; a is endpoint 10.180.0.1.
const (
	clusterToA  = "10.96.0.10:53>10.180.0.1:53"
	vipToA      = "5.5.5.5:53>10.180.0.1:53"
	externalToA = "198.51.100.7:53>10.180.0.1:53"
	nodeToA     = "192.168.0.2:30053>10.180.0.1:53"

	clusterAlone = "10.96.0.10:53>10.96.0.10:53"
	nodeAlone    = "192.168.0.2:30053>192.168.0.2:30053"
)

// Each case: what was in place, what comes, which of the flows are stale then.
func TestStale(t *testing.T) {
	every := []string{clusterToA, vipToA, externalToA, nodeToA}
	alone := []string{clusterAlone, "5.5.5.5:53>5.5.5.5:53", "198.51.100.7:53>198.51.100.7:53", nodeAlone}
	with := func(eps ...string) func(*world) { return func(w *world) { w.set(dns()).eps(eps...) } }
	eps := func(eps ...string) func(*world) { return func(w *world) { w.eps(eps...) } }
	tests := []struct {
		name          string
		before, after func(*world)
		flows, want   []string
	}{
		{"I01 to a serving endpoint", with("10.180.0.9"), eps("10.180.0.1"), every, nil},
		{"I02 I08 I09 the endpoint is replaced", with("10.180.0.1"), eps("10.180.0.2"), every, every},
		{"I03 #32 never translated, endpoints come", with(), eps("10.180.0.1"), alone, alone},
		{"I03 #32 never translated, and no endpoint yet", with(), with(), alone, nil},
		{"never translated, scaled to zero: rejected anyway", with("10.180.0.1"), eps(), alone, nil},
		{"I04 terminating and serving", with("10.180.0.1"), eps("10.180.0.1 T", "10.180.0.2"), every, nil},
		{"I05 terminating, not serving", with("10.180.0.1"), eps("10.180.0.1 X", "10.180.0.2"), every, every},
		{
			"I06 not ready: serving and not serving", with("10.180.0.1", "10.180.0.2"), eps("10.180.0.1 S", "10.180.0.2 N", "10.180.0.3"),
			[]string{clusterToA, "10.96.0.10:53>10.180.0.2:53"},
			[]string{"10.96.0.10:53>10.180.0.2:53"},
		},
		{"I10 I09 the number on somebody else's address", with("10.180.0.1", "10.180.0.2"), eps("10.180.0.2"), []string{"203.0.113.9:30053>203.0.113.9:30053", "203.0.113.9:30053>10.9.9.9:53", nodeToA}, []string{nodeToA}},
		{"I11 I12 #2 scaled to zero", with("10.180.0.1"), eps(), every, every},
		{"I13 #3 the Service is deleted", with("10.180.0.1"), func(w *world) { w.remove() }, every, every},
		{"#3 the Service is deleted, not its endpoints", with("10.180.0.1"), func(w *world) { w.in.Services[nsn("dns")] = nil }, every, every},
		{
			"I14 another Service takes the addresses over", with("10.180.0.1"),
			func(w *world) {
				w.remove().set(dns(func(s *service.Service) { s.Name = nsn("dns2") })).epsOf("dns2", "10.180.0.2")
			},
			append([]string{"10.96.0.10:53>10.180.0.2:53"}, every...), every,
		},
		{
			"I20 #3 the port number changes", with("10.180.0.1"),
			func(w *world) { w.set(dns(func(s *service.Service) { s.Ports[0].Port = 5353 })) },
			append([]string{"10.96.0.10:5353>10.180.0.1:53"}, every...),
			[]string{clusterToA, vipToA, externalToA},
		},
		{
			"#3 only the node port changes", with("10.180.0.1"),
			func(w *world) { w.set(dns(func(s *service.Service) { s.Ports[0].NodePort = 30054 })) }, every,
			[]string{nodeToA},
		},
		{
			"#3 one address of each kind goes", with("10.180.0.1"),
			func(w *world) {
				w.set(dns(func(s *service.Service) { s.IPv4.ExternalIPs, s.IPv4.LoadBalancerIPs = nil, nil }))
			},
			every,
			[]string{vipToA, externalToA},
		},
		{"another Service changes", with("10.180.0.1"), func(w *world) { w.set(other()).epsOf("other", "10.180.0.5") }, every, nil},
		{
			"IPv6", with("fd00:180::1"), eps("fd00:180::2"),
			[]string{"[fd00:96::10]:53>[fd00:180::1]:53", "[fd00:96::10]:53>[fd00:180::2]:53"},
			[]string{"[fd00:96::10]:53>[fd00:180::1]:53"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.before(w)
			w.done()
			tt.after(w)
			if got := w.stale(flows(tt.flows...)...); !slices.Equal(got, tt.want) {
				t.Errorf("stale are %q, want %q", got, tt.want)
			}
		})
	}
}

// other is Service ns1/other.
func other() *service.Service {
	return &service.Service{
		Name:  nsn("other"),
		Ports: []service.Port{{Name: "dns", Protocol: udp, Port: 53, NodePort: 30099}},
		IPv4:  service.Addresses{ClusterIP: netip.MustParseAddr("10.96.0.99")},
	}
}

// Policies, topology and readiness say where new flows go, and cut none.
func TestPolicies(t *testing.T) {
	local := func(s *service.Service) { s.InternalLocal = true }
	t.Run("I07 internal Local, to a remote serving endpoint", func(t *testing.T) {
		w := newWorld().set(dns()).eps("10.180.0.1 remote", "10.180.0.2").done()
		if got := w.set(dns(local)).stale(flow(clusterToA)); got != nil {
			t.Errorf("stale are %q", got)
		}
	})
	t.Run("#34 the local endpoint goes, and comes back elsewhere", func(t *testing.T) {
		toRemote := "10.96.0.10:53>10.180.0.7:53"
		w := newWorld().set(dns(local)).eps("10.180.0.1", "10.180.0.7 remote").done()
		if got := w.eps("10.180.0.7 remote").stale(flows(clusterToA, toRemote)...); !slices.Equal(got, []string{clusterToA}) {
			t.Errorf("stale are %q, want those to the endpoint that went", got)
		}
		w.done()
		if got := w.eps("10.180.0.7 remote", "10.180.0.6").stale(flows(clusterAlone, toRemote)...); !slices.Equal(got, []string{clusterAlone}) {
			t.Errorf("stale are %q, want those that were not translated", got)
		}
	})
}

func TestFull(t *testing.T) {
	t.Run("#33 I04 restart with nothing changed", func(t *testing.T) {
		w := newWorld().set(dns()).eps("10.180.0.1", "10.180.0.2 T")
		if got := w.stale(flows(clusterToA, nodeToA, "10.96.0.10:53>10.180.0.2:53", "192.0.2.1:443>192.0.2.1:443")...); got != nil {
			t.Errorf("stale are %q", got)
		}
	})
	t.Run("#2 #32 restart after changes", func(t *testing.T) {
		w := newWorld().set(dns()).eps("10.180.0.2")
		want := []string{clusterToA, nodeToA, clusterAlone, nodeAlone, "10.96.0.10:54>10.180.0.2:54"}
		kept := []string{"10.96.0.10:55>10.96.0.10:55", "203.0.113.9:30053>10.180.0.1:53"}
		if got := w.stale(flows(append(kept, want...)...)...); !slices.Equal(got, want) {
			t.Errorf("stale are %q, want %q", got, want)
		}
	})
	t.Run("#3 #5 what was tried and failed counts", func(t *testing.T) {
		w := newWorld().set(dns()).eps("10.180.0.1").done()
		w.cursor.Done(w.remove().delta(), errKernel)
		if got := w.stale(flows(clusterToA, vipToA, nodeToA)...); !slices.Equal(got, []string{clusterToA, vipToA, nodeToA}) {
			t.Errorf("stale are %q, want all", got)
		}
	})
}

func TestIdle(t *testing.T) {
	tests := []struct {
		name          string
		before, after func(*world)
	}{
		{
			"I18 I15 #36 only TCP changed", func(w *world) { w.set(dns(onlyTCP)).eps("10.180.0.1") },
			func(w *world) { w.eps("10.180.0.2") },
		},
		{
			"I19 nothing that counts changed", func(w *world) { w.set(dns()).eps("10.180.0.1") },
			func(w *world) { w.set(dns()).eps("10.180.0.1") },
		},
		{
			"I07 only a policy changed", func(w *world) { w.set(dns()).eps("10.180.0.1") },
			func(w *world) { w.set(dns(func(s *service.Service) { s.ExternalLocal = true })) },
		},
		{
			"only readiness changed", func(w *world) { w.set(dns()).eps("10.180.0.1", "10.180.0.2") },
			func(w *world) { w.eps("10.180.0.1 S", "10.180.0.2") },
		},
		{
			"the node's zone changed", func(w *world) { w.set(dns()).eps("10.180.0.1") },
			func(w *world) { w.cfg.Node.Zone = "z1" },
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld()
			tt.before(w)
			w.done()
			tt.after(w)
			d := w.delta()
			if d == nil {
				return
			}
			if j := conntrack.NewJudge(d, v4, nil); !j.Idle() || j.Stale(flow(clusterToA)) {
				t.Error("the Judge is not idle")
			}
		})
	}
}

func onlyTCP(s *service.Service) { s.Ports[0].Protocol = tcp }

func TestNodePortAddresses(t *testing.T) {
	onBridge := "172.17.0.1:30053>10.180.0.1:53"
	t.Run("an address ceases to serve", func(t *testing.T) {
		w := newWorld()
		w.cfg.NodePortAddresses = plan.NodePortSelector{Prefixes: []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("172.17.0.0/16")}}
		w.set(dns()).eps("10.180.0.1").done()
		w.cfg.NodePortAddresses = plan.NodePortSelector{}
		if got := w.stale(flows(nodeToA, onBridge, clusterToA)...); !slices.Equal(got, []string{onBridge}) {
			t.Errorf("stale are %q, want %q", got, onBridge)
		}
	})
	t.Run("I03 an address begins to serve", func(t *testing.T) {
		alone := "172.17.0.1:30053>172.17.0.1:30053"
		w := newWorld().set(dns()).eps("10.180.0.1").done()
		w.cfg.NodePortAddresses = plan.NodePortSelector{All: true}
		if got := w.stale(flows(nodeToA, alone)...); !slices.Equal(got, []string{alone}) {
			t.Errorf("stale are %q, want %q", got, alone)
		}
	})
	t.Run("I10 every local address serves, also one that is not the plan's", func(t *testing.T) {
		w := newWorld()
		w.cfg.NodePortAddresses = plan.NodePortSelector{All: true}
		w.set(dns()).eps("10.180.0.1").done()
		d := w.eps("10.180.0.2").delta()
		want := []string{nodeToA, onBridge, "172.18.0.1:30053>10.180.0.1:53"}
		kept := []string{"203.0.113.9:30053>10.180.0.1:53", "127.0.0.1:30053>10.180.0.1:53", "169.254.0.1:30053>10.180.0.1:53"}
		local := []netip.Addr{netip.MustParseAddr("172.18.0.1"), netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("169.254.0.1")}
		if got := staleBy(d, local, flows(append(kept, want...)...)...); !slices.Equal(got, want) {
			t.Errorf("stale are %q, want %q", got, want)
		}
	})
	t.Run("loopback, if asked for", func(t *testing.T) {
		w := newWorld()
		w.cfg.NodePortAddresses = plan.NodePortSelector{Localhost: true}
		w.set(dns()).eps("10.180.0.1").done()
		want := []string{"127.0.0.1:30053>10.180.0.1:53"}
		if got := w.eps("10.180.0.2").stale(flows(append(want, nodeToA)...)...); !slices.Equal(got, want) {
			t.Errorf("stale are %q, want %q", got, want)
		}
	})
	t.Run("an exact address of another Service beats the NodePort", func(t *testing.T) {
		w := newWorld()
		o := other()
		o.Ports[0].Port = 30053
		o.IPv4.ExternalIPs = []netip.Addr{netip.MustParseAddr("192.168.0.2")}
		w.set(dns(), o).eps("10.180.0.1").epsOf("other", "10.180.0.5").done()
		toOther := "192.168.0.2:30053>10.180.0.5:53"
		if got := w.eps("10.180.0.2").stale(flows(toOther, clusterToA)...); !slices.Equal(got, []string{clusterToA}) {
			t.Errorf("stale are %q, want %q", got, clusterToA)
		}
	})
}
