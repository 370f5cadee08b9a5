package ipvs_test

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

func TestSync(t *testing.T) {
	tests := []struct {
		name    string
		app     app
		prepare func(w *world)
		servers map[string]string
		bound   []string
		boxes   map[string][]string
	}{
		{
			name:    "G01 ClusterIP",
			app:     app{name: "web", vip: "10.96.0.10", eps: both},
			servers: map[string]string{"TCP 10.96.0.10:80": "rr 10.180.0.1:8080 10.180.1.1:8080"},
			bound:   []string{"10.96.0.10"},
			boxes: map[string][]string{
				"frontends-4": {"10.96.0.10 . tcp . 80"}, "cluster-ips-4": {"10.96.0.10"}, "bound-4": {"10.96.0.10"},
				"masquerade-outside-4": {"10.96.0.10 . tcp . 80"}, "masquerade-node-4": {"10.96.0.10 . tcp . 80"}, "masquerade-pod-4": nil,
			},
		},
		{
			name:    "G24 IPv6",
			app:     app{name: "web", vip: "fd00:96::10", eps: "[fd00:10:180::1]:8080@n1"},
			servers: map[string]string{"TCP [fd00:96::10]:80": "rr [fd00:10:180::1]:8080"},
			bound:   []string{"fd00:96::10"},
			boxes:   map[string][]string{"cluster-ips-6": {"fd00:96::10"}, "cluster-ips-4": nil},
		},
		{
			name:    "G05 #58 external IP on another interface is not bound",
			app:     app{name: "web", vip: "10.96.0.10", eps: both, change: external("192.0.2.77")},
			prepare: func(w *world) { w.other(addr("192.0.2.77")) },
			servers: map[string]string{
				"TCP 10.96.0.10:80": "rr 10.180.0.1:8080 10.180.1.1:8080", "TCP 192.0.2.77:80": "rr 10.180.0.1:8080 10.180.1.1:8080",
			},
			bound: []string{"10.96.0.10"},
		},
		{
			name:    "#58 external IP that is the node's own is not bound",
			app:     app{name: "web", vip: "10.96.0.10", eps: here, change: external("192.0.2.2")},
			servers: map[string]string{"TCP 10.96.0.10:80": "rr 10.180.0.1:8080", "TCP 192.0.2.2:80": "rr 10.180.0.1:8080"},
			bound:   []string{"10.96.0.10"},
		},
		{
			name: "#58 external IP of another node is left out",
			app:  app{name: "web", vip: "10.96.0.10", eps: here, change: external("192.0.2.3")},
			prepare: func(w *world) {
				w.opts.Elsewhere = func(a netip.Addr) bool { return a == addr("192.0.2.3") }
				w.restart()
			},
			servers: map[string]string{"TCP 10.96.0.10:80": "rr 10.180.0.1:8080"},
			bound:   []string{"10.96.0.10"},
		},
		{
			name: "G06 NodePort on two addresses",
			app:  app{name: "web", vip: "10.96.0.10", eps: here, change: nodePort},
			prepare: func(w *world) {
				w.config.Node.Addresses = []netip.Addr{addr("192.168.0.2"), addr("10.1.1.1")}
				w.config.NodePortAddresses = plan.NodePortSelector{Prefixes: []netip.Prefix{prefix("192.168.0.0/16"), prefix("10.1.0.0/16")}}
			},
			servers: map[string]string{
				"TCP 10.96.0.10:80": "rr 10.180.0.1:8080", "TCP 192.168.0.2:30080": "rr 10.180.0.1:8080", "TCP 10.1.1.1:30080": "rr 10.180.0.1:8080",
			},
			bound: []string{"10.96.0.10"},
			boxes: map[string][]string{"frontends-4": {"10.1.1.1 . tcp . 30080", "10.96.0.10 . tcp . 80", "192.168.0.2 . tcp . 30080"}},
		},
		{
			name: "#73 NodePort on all addresses, none on loopback or link-local",
			app:  app{name: "web", vip: "10.96.0.10 fd00:96::10", eps: here + " [fd00:10:180::1]:8080@n1", change: nodePort},
			prepare: func(w *world) {
				w.config.NodePortAddresses = plan.NodePortSelector{All: true, Localhost: true}
				for _, a := range []string{"127.0.0.1", "::1", "192.0.2.2", "2001:db8::2", "192.0.2.10", "fe80::1", "2001:db8:1::10"} {
					w.other(addr(a))
				}
			},
			servers: map[string]string{
				"TCP 10.96.0.10:80": "rr 10.180.0.1:8080", "TCP [fd00:96::10]:80": "rr [fd00:10:180::1]:8080",
				"TCP 192.0.2.2:30080": "rr 10.180.0.1:8080", "TCP [2001:db8::2]:30080": "rr [fd00:10:180::1]:8080",
				"TCP 192.0.2.10:30080": "rr 10.180.0.1:8080", "TCP [2001:db8:1::10]:30080": "rr [fd00:10:180::1]:8080",
			},
			bound: []string{"10.96.0.10", "fd00:96::10"},
		},
		{
			name: "G07 #74 NodePort for SCTP",
			app: app{name: "web", vip: "10.96.0.10", eps: here, change: func(s *service.Service) {
				s.Ports[0].Protocol, s.Ports[0].NodePort = corev1.ProtocolSCTP, 30080
			}},
			servers: map[string]string{"SCTP 10.96.0.10:80": "rr 10.180.0.1:8080", "SCTP 192.0.2.2:30080": "rr 10.180.0.1:8080"},
			bound:   []string{"10.96.0.10"},
			boxes:   map[string][]string{"frontends-4": {"10.96.0.10 . sctp . 80", "192.0.2.2 . sctp . 30080"}},
		},
		{
			name:    "G08 NodePort that no address serves",
			app:     app{name: "web", vip: "10.96.0.10", eps: here, change: nodePort},
			prepare: func(w *world) { w.config.NodePortAddresses.Prefixes = []netip.Prefix{prefix("203.0.113.0/24")} },
			servers: map[string]string{"TCP 10.96.0.10:80": "rr 10.180.0.1:8080"},
			bound:   []string{"10.96.0.10"},
		},
		{
			name: "G09 external Local: outside reaches local endpoints, pods and the node all",
			app:  app{name: "web", vip: "10.96.0.10", eps: both, change: local(external("198.51.100.9"))},
			servers: map[string]string{
				"TCP 10.96.0.10:80":   "rr 10.180.0.1:8080 10.180.1.1:8080",
				"TCP 198.51.100.9:80": "rr 10.180.0.1:8080",
				"mark IPv4":           "rr 10.180.0.1:8080 10.180.1.1:8080",
			},
			bound: []string{"10.96.0.10", "198.51.100.9"},
			boxes: map[string][]string{"deny-outside-4": nil, "masquerade-outside-4": {"10.96.0.10 . tcp . 80"}},
		},
		{
			name: "G10 #72 external Local without local endpoints: strict, and the ClusterIP has all",
			app:  app{name: "web", vip: "10.96.0.10", eps: there, change: local(external("198.51.100.9"))},
			servers: map[string]string{
				"TCP 10.96.0.10:80": "rr 10.180.1.1:8080", "TCP 198.51.100.9:80": "rr", "mark IPv4": "rr 10.180.1.1:8080",
			},
			bound: []string{"10.96.0.10", "198.51.100.9"},
			boxes: map[string][]string{
				"deny-outside-4": {"198.51.100.9 . tcp . 80 : drop"}, "deny-pod-4": nil, "deny-node-4": nil,
			},
		},
		{
			name:    "G11 internal Local without local endpoints",
			app:     app{name: "web", vip: "10.96.0.10", eps: there, change: func(s *service.Service) { s.InternalLocal = true }},
			servers: map[string]string{"TCP 10.96.0.10:80": "rr"},
			bound:   []string{"10.96.0.10"},
			boxes: map[string][]string{
				"deny-outside-4": {"10.96.0.10 . tcp . 80 : drop"}, "deny-pod-4": {"10.96.0.10 . tcp . 80 : drop"}, "deny-node-4": {"10.96.0.10 . tcp . 80 : drop"},
			},
		},
		{
			name: "G12 internal Local does not leak where a NodePort uses the cluster",
			app: app{name: "web", vip: "10.96.0.10", eps: there, change: func(s *service.Service) {
				s.InternalLocal, s.Ports[0].NodePort = true, 30080
			}},
			servers: map[string]string{"TCP 10.96.0.10:80": "rr", "TCP 192.0.2.2:30080": "rr 10.180.1.1:8080"},
			bound:   []string{"10.96.0.10"},
		},
		{
			name:    "no endpoints: reject",
			app:     app{name: "web", vip: "10.96.0.10"},
			servers: map[string]string{"TCP 10.96.0.10:80": "rr"},
			bound:   []string{"10.96.0.10"},
			boxes:   map[string][]string{"deny-pod-4": {"10.96.0.10 . tcp . 80 : goto refuse"}},
		},
		{
			name:    "G23 no detector: nobody is masqueraded at a ClusterIP",
			app:     app{name: "web", vip: "10.96.0.10", eps: both},
			prepare: func(w *world) { w.config.Node.PodCIDRs = nil },
			servers: map[string]string{"TCP 10.96.0.10:80": "rr 10.180.0.1:8080 10.180.1.1:8080"},
			bound:   []string{"10.96.0.10"},
			boxes:   map[string][]string{"masquerade-outside-4": nil, "masquerade-node-4": nil},
		},
		{
			name: "G21 #60 source ranges name address, protocol and port",
			app: app{name: "web", vip: "10.96.0.10", eps: here, change: func(s *service.Service) {
				s.IPv4.LoadBalancerIPs = []netip.Addr{addr("203.0.113.60")}
				s.IPv4.SourceRanges = []netip.Prefix{prefix("198.51.100.0/24"), prefix("198.51.100.128/25")}
			}},
			servers: map[string]string{"TCP 10.96.0.10:80": "rr 10.180.0.1:8080", "TCP 203.0.113.60:80": "rr 10.180.0.1:8080"},
			bound:   []string{"10.96.0.10", "203.0.113.60"},
			boxes: map[string][]string{
				"restricted-4": {"203.0.113.60 . tcp . 80"}, "allowed-4": {"203.0.113.60 . tcp . 80 . 198.51.100.0/24"},
			},
		},
	}
	for _, tt := range tests {
		for in, start := range worlds() {
			t.Run(tt.name+", "+in, func(t *testing.T) {
				w := start(t)
				if tt.prepare != nil {
					tt.prepare(w)
				}
				w.sync(with(tt.app))
				w.wantServers(tt.servers)
				w.wantBound(tt.bound...)
				for name, want := range tt.boxes {
					w.wantBox(name, want...)
				}
			})
		}
	}
}

func TestSyncOptions(t *testing.T) {
	w := newWorld(t, ipvs.Options{
		Timeouts: ipvs.Timeouts{UDP: time.Minute},
		PerPort: func(p *plan.Port) ipvs.Balance {
			if p.Name == "special" {
				return ipvs.Balance{Scheduler: "wlc"}
			}
			return ipvs.Balance{Scheduler: "mh", HashPort: true}
		},
	})
	w.sync(with(
		app{name: "web", vip: "10.96.0.10", eps: here, change: func(s *service.Service) { s.AffinityTimeout = 10800 * time.Second }},
		app{name: "special", vip: "10.96.0.11", eps: here},
	))
	v, err := w.ipvs.Server(tcp("10.96.0.10:80"))
	if err != nil {
		t.Fatal(err)
	}
	timeouts, err := w.ipvs.Timeouts()
	if err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{
		"G02 affinity":             v.Persistence == 10800*time.Second,
		"G03 mh with port":         v.Scheduler == "mh" && v.HashPort,
		"a scheduler of its own":   w.servers()["TCP 10.96.0.11:80"] == "wlc 10.180.0.1:8080",
		"G27 only the UDP timeout": timeouts.UDP == time.Minute && timeouts.TCP == 15*time.Minute,
	} {
		t.Run(name, func(t *testing.T) {
			if !ok {
				t.Errorf("server %+v, all %v, timeouts %v", v, w.servers(), timeouts)
			}
		})
	}
}

func TestUnknownScheduler(t *testing.T) {
	w := newWorld(t, ipvs.Options{PerPort: func(p *plan.Port) ipvs.Balance {
		if p.Name == "bad" {
			return ipvs.Balance{Scheduler: "nosuch"}
		}
		return ipvs.Balance{}
	}})
	err := w.try(with(app{name: "bad", vip: "10.96.0.10", eps: here}, app{name: "good", vip: "10.96.0.11", eps: here}))
	var partial *plan.PartialError
	if !errors.As(err, &partial) || len(partial.Ports) != 1 || !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("G04 Sync() = %v, want a PartialError of one port that is ErrUnsupported", err)
	}
	w.wantServers(map[string]string{"TCP 10.96.0.11:80": "rr 10.180.0.1:8080"})

	w = newWorld(t, ipvs.Options{Balance: ipvs.Balance{Scheduler: "nosuch"}})
	if err := w.backend.Probe(t.Context()); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "ip_vs_nosuch") {
		t.Errorf("G04 Probe() = %v, want the missing module", err)
	}
}

func TestChanges(t *testing.T) {
	t.Run("G13 G19 endpoints drain, a Service goes", func(t *testing.T) {
		w := newWorld(t, ipvs.Options{})
		k := tcp("10.96.0.10:80")
		w.sync(with(app{name: "web", vip: "10.96.0.10", eps: both}))
		if err := w.kernel.Connect(k, addrPort("10.180.1.1:8080"), 3, 0); err != nil {
			t.Fatal(err)
		}
		stats := w.sync(with(app{name: "web", vip: "10.96.0.10", eps: here}))
		if stats.Draining != 1 || stats.Full {
			t.Errorf("stats %+v, want one draining, not full", stats)
		}
		w.wantServers(map[string]string{"TCP 10.96.0.10:80": "rr 10.180.0.1:8080 10.180.1.1:8080=0"}) // G13
		w.restart()
		w.sync(plan.Input{}) // #10: a restart keeps on draining
		w.wantServers(map[string]string{"TCP 10.96.0.10:80": "rr 10.180.0.1:8080 10.180.1.1:8080=0"})
		if err := w.kernel.Connect(k, addrPort("10.180.1.1:8080"), 0, 0); err != nil {
			t.Fatal(err)
		}
		if left, err := w.backend.Sweep(t.Context()); left != 0 || err != nil {
			t.Errorf("Sweep() = %d, %v", left, err)
		}
		w.wantServers(map[string]string{"TCP 10.96.0.10:80": "rr 10.180.0.1:8080"})
		// From one endpoint to none: first refused, and back.
		w.sync(with(app{name: "web", vip: "10.96.0.10"}))
		w.wantBox("deny-outside-4", "10.96.0.10 . tcp . 80 : goto refuse")
		w.sync(with(app{name: "web", vip: "10.96.0.10", eps: here}))
		w.wantBox("deny-outside-4")
		w.sync(withoutWeb())
		w.wantServers(map[string]string{}) // G19
		w.wantBound()
		for _, name := range []string{"frontends-4", "cluster-ips-4", "bound-4", "masquerade-outside-4"} {
			w.wantBox(name)
		}
	})
}

func TestPortLeaves(t *testing.T) {
	w := newWorld(t, ipvs.Options{})
	w.sync(with(app{name: "web", vip: "10.96.0.10", eps: here, change: nodePort}))
	k := tcp("192.0.2.2:30080")
	if err := w.kernel.Connect(k, addrPort("10.180.0.1:8080"), 1, 0); err != nil {
		t.Fatal(err)
	}
	w.sync(withoutWeb())
	w.wantServers(map[string]string{"TCP 192.0.2.2:30080": "rr 10.180.0.1:8080=0"})
	w.wantBox("deny-outside-4", "192.0.2.2 . tcp . 30080 : goto refuse")
	if err := w.kernel.Connect(k, addrPort("10.180.0.1:8080"), 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.backend.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantServers(map[string]string{})
	w.wantBox("deny-outside-4")
	w.wantBox("frontends-4")
}

// A ClusterIP stays for the sake of its connections, silent to others; an external IP may
// belong to another machine by now.
func TestAddressLeaves(t *testing.T) {
	w := newWorld(t, ipvs.Options{})
	w.sync(with(app{name: "web", vip: "10.96.0.10", eps: here, change: external("198.51.100.9")}))
	k := tcp("10.96.0.10:80")
	for _, key := range []ipvs.ServerKey{k, tcp("198.51.100.9:80")} {
		if err := w.kernel.Connect(key, addrPort("10.180.0.1:8080"), 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	w.sync(withoutWeb())
	w.wantServers(map[string]string{"TCP 10.96.0.10:80": "rr 10.180.0.1:8080=0"})
	w.wantBound("10.96.0.10")
	w.wantBox("deny-outside-4", "10.96.0.10 . tcp . 80 : drop")
	if err := w.kernel.Connect(k, addrPort("10.180.0.1:8080"), 0, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := w.backend.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.wantServers(map[string]string{})
	w.wantBound()
	w.wantBox("frontends-4")
	w.wantBox("deny-outside-4")
}

func TestForeign(t *testing.T) {
	t.Run("G17 G18 #59 virtual servers of others stay", func(t *testing.T) {
		w := newWorld(t, ipvs.Options{})
		foreign := ipvs.VirtualServer{ServerKey: ipvs.ServerKey{Addr: addrPort("172.16.0.1:80"), Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}, Scheduler: "wlc"}
		marked := ipvs.VirtualServer{ServerKey: ipvs.ServerKey{Mark: 7, Family: corev1.IPv4Protocol}, Scheduler: "rr"}
		if err := errors.Join(w.ipvs.AddServer(foreign), w.ipvs.AddServer(marked)); err != nil {
			t.Fatal(err)
		}
		web := app{name: "web", vip: "10.96.0.10", eps: both, change: local(func(s *service.Service) {
			external("198.51.100.9")(s)
			nodePort(s)
		})}
		w.sync(with(web))
		w.restart()
		w.sync(withoutWeb()) // what is ours and stale goes, also after a restart
		// G17 G18 #59: virtual servers of others stay, whatever their address.
		want := map[string]string{"TCP 172.16.0.1:80": "wlc", "mark IPv4": "rr"}
		w.wantServers(want)
		w.sync(with(web))
		for range 2 {
			if err := w.backend.Cleanup(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		w.wantServers(want)
		w.wantBound()
		if chains, err := w.nft.List(t.Context(), "chain"); err == nil && len(chains) > 0 {
			t.Errorf("chains after Cleanup: %v", chains)
		}
	})
}

func TestRestartKeepsMarks(t *testing.T) {
	w := newWorld(t, ipvs.Options{})
	w.sync(with(app{name: "web", vip: "10.96.0.10", eps: both, change: local(external("198.51.100.9"))}))
	before := w.box("pool-pod-4")
	w.restart()
	w.addrs.Fail = func(op string) error {
		if op == "bind" {
			t.Error("an address is bound that is")
		}
		return nil
	}
	stats := w.sync(plan.Input{})
	if after := w.box("pool-pod-4"); !slices.Equal(before, after) {
		t.Errorf("marks after a restart %v, want %v", after, before)
	}
	if !stats.Full {
		t.Errorf("stats %+v, want full", stats)
	}
}

// An address that the node is said to have and the machine has not can be no source.
func TestSourceOfBoundAddresses(t *testing.T) {
	w := newWorld(t, ipvs.Options{})
	w.config.Node.Addresses = []netip.Addr{addr("203.0.113.1"), addr("192.0.2.2"), addr("2001:db8::2")}
	w.other(addr("192.0.2.2"))
	w.sync(with(app{name: "web", vip: "10.96.0.10 fd00:96::10", eps: both}))
	bound, err := ipvs.Bound(w.links)
	if err != nil {
		t.Fatal(err)
	}
	want := map[netip.Addr]netip.Addr{addr("10.96.0.10"): addr("192.0.2.2"), addr("fd00:96::10"): {}}
	if !maps.Equal(bound, want) {
		t.Errorf("sources %v, want %v", bound, want)
	}
}

// A noticing kernel tells of real servers before they come.
type noticing struct {
	ipvs.KernelMethods
	added func(ipvs.ServerKey)
}

func (n *noticing) AddReal(k ipvs.ServerKey, s ipvs.RealServer) error {
	n.added(k)
	return n.KernelMethods.AddReal(k, s)
}

// Without real servers a virtual server refuses: nothing may lead to one by mark until it has them.
func TestMarkLeadsToRealServers(t *testing.T) {
	w := newWorld(t, ipvs.Options{})
	marked := 0
	w.ipvs = &noticing{KernelMethods: w.ipvs, added: func(k ipvs.ServerKey) {
		if k.Mark == 0 {
			return
		}
		marked++
		if chains, err := w.nft.List(t.Context(), "chain"); err == nil && len(chains) > 0 {
			w.wantBox("pool-pod-4")
		}
	}}
	w.restart()
	w.sync(with(app{name: "web", vip: "10.96.0.10", eps: both, change: external("198.51.100.9")}))
	w.sync(with(app{name: "web", vip: "10.96.0.10", eps: both, change: local(external("198.51.100.9"))}))
	if marked == 0 || len(w.box("pool-pod-4")) == 0 {
		t.Errorf("%d real servers by mark, elements %v", marked, w.box("pool-pod-4"))
	}
}
