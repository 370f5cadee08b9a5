package nftables

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

const (
	podA    = "10.180.0.1:8080"
	podB    = "10.180.0.1:8081" // another endpoint on the same node
	remoteA = "10.180.1.1:8080"
	remoteB = "10.180.1.2:8080"
)

// A stickyLab has one Service with ClientIP affinity.
type stickyLab struct {
	*world
	lab *netlab.Lab
	b   *Backend
}

func newStickyLab(t *testing.T, opts Options) *stickyLab {
	t.Helper()
	s := &stickyLab{world: newWorld(t, *twoAddresses(func(*plan.Config) {})), lab: newLab(t), b: newBackend(t, opts)}
	for _, at := range []string{podA, podB, remoteA, remoteB} {
		if err := s.lab.Serve(addrPort(at), corev1.ProtocolTCP); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// set changes the Service; the endpoints are on node n1 if they are the pod's.
func (s *stickyLab) set(change func(*service.Service), eps ...string) {
	s.tb.Helper()
	named := slices.Clone(eps)
	for i, at := range eps {
		if at == podA || at == podB {
			named[i] = at + "@n1"
		}
	}
	s.within(s.lab, s.b, with(app{name: "sticky", vip: "10.96.0.10", eps: strings.Join(named, " "), change: change}))
}

// dial returns the endpoint that a client of an address reaches.
func (s *stickyLab) dial(source, to string) string {
	s.tb.Helper()
	res, err := s.lab.Probe(netlab.Probe{From: "client", Source: addr(source), Destination: addrPort(to), Protocol: corev1.ProtocolTCP})
	if err != nil || res.Outcome != netlab.Answered {
		s.tb.Fatalf("%s to %s: %v, %v", source, to, res.Outcome, err)
	}
	return res.Answer.Server.String()
}

// wantStuck dials many times and wants the same endpoint each time.
func (s *stickyLab) wantStuck(source string, to ...string) string {
	s.tb.Helper()
	first := s.dial(source, to[0])
	for range 12 {
		for _, dst := range to {
			if got := s.dial(source, dst); got != first {
				s.tb.Fatalf("%s to %s: got %s, want %s again", source, dst, got, first)
			}
		}
	}
	return first
}

// list returns what the node's nft says.
func (s *stickyLab) list(args ...string) string {
	s.tb.Helper()
	var out string
	_ = s.lab.Namespace(netlab.NodeName).Do(func() error { out = nft(s.tb, args...); return nil })
	return out
}

// but returns eps without one.
func but(one string, eps ...string) []string {
	var out []string
	for _, e := range eps {
		if e != one {
			out = append(out, e)
		}
	}
	return out
}

const (
	client1, client2 = "192.0.2.1", "198.51.100.77"
	viaClusterIP     = "10.96.0.10:80"
	viaLoadBalancer  = "203.0.113.5:80"
	viaNodePort      = "192.0.2.2:30080"
)

func TestAffinityPackets(t *testing.T) {
	s := newStickyLab(t, Options{})
	sticky := both(externals, affine)
	all := []string{podA, remoteA, remoteB}

	s.set(sticky, all...)
	t.Run("E03 #86 a client stays whichever frontend it uses", func(t *testing.T) {
		s.tb = t
		s.wantStuck(client1, viaClusterIP, viaLoadBalancer, viaNodePort)
		s.wantStuck(client2, viaNodePort, viaClusterIP)
	})
	t.Run("E33 #12 a removed endpoint is left at once, and the client stays with the next", func(t *testing.T) {
		s.tb = t
		was := s.wantStuck(client1, viaClusterIP)
		s.set(sticky, but(was, all...)...)
		next := s.wantStuck(client1, viaClusterIP)
		if next == was {
			t.Fatalf("still reaches %s", was)
		}
		s.set(sticky, all...)
		if again := s.wantStuck(client1, viaClusterIP); again != next {
			t.Errorf("moved from %s to %s when %s came back", next, again, was)
		}
	})
	t.Run("another endpoint moves nobody", func(t *testing.T) {
		s.tb = t
		was := s.wantStuck(client1, viaClusterIP)
		s.set(sticky, append(but("", all...), podB)...)
		if now := s.wantStuck(client1, viaClusterIP); now != was {
			t.Errorf("moved from %s to %s", was, now)
		}
		s.set(sticky, all...)
	})
	t.Run("#9 a restart keeps clients and connections and writes nothing", func(t *testing.T) {
		s.tb = t
		was := s.wantStuck(client1, viaClusterIP)
		conn, _, err := s.lab.Open(netlab.Probe{From: "client", Source: addr(client1), Destination: addrPort(viaLoadBalancer), Protocol: corev1.ProtocolTCP})
		if err != nil || conn == nil {
			t.Fatalf("open a connection: %v", err)
		}
		defer conn.Close()
		s.b = newBackend(t, Options{})
		r := record(s.b)
		s.cursor.Reset()
		s.within(s.lab, s.b, plan.Input{})
		for _, line := range r.written() {
			t.Errorf("wrote %s", line)
		}
		if err := conn.Ping(10 * time.Second); err != nil {
			t.Errorf("a connection that was open before the restart: %v", err)
		}
		if now := s.wantStuck(client1, viaClusterIP); now != was {
			t.Errorf("moved from %s to %s", was, now)
		}
	})
}

func TestAffinityTimeout(t *testing.T) {
	s := newStickyLab(t, Options{})
	s.set(affine, remoteA, remoteB)
	was := s.wantStuck(client1, viaClusterIP)
	clients := string(namesOf(plan.Key{PortName: service.PortName{
		NamespacedName: nameOf("sticky"), Port: "p80", Protocol: corev1.ProtocolTCP,
	}})) + suffixClients
	if out := s.list("list", "map", "ip", "vipkit", clients); !strings.Contains(out, "192.0.2.1 timeout 3h") {
		t.Errorf("#70 default timeout is not in\n%s", out)
	}
	minute := func(svc *service.Service) { svc.AffinityTimeout = time.Minute }
	s.set(minute, remoteA, remoteB)
	if now := s.wantStuck(client1, viaClusterIP); now != was {
		t.Errorf("#11 a new timeout moved the client from %s to %s", was, now)
	}
	if out := s.list("list", "map", "ip", "vipkit", clients); !regexp.MustCompile(`192\.0\.2\.1 .*expires (1m|[0-9]+s)`).MatchString(out) {
		t.Errorf("#11 the new timeout is not in\n%s", out)
	}
	s.set(nil, remoteA, remoteB)
	if out := s.list("list", "ruleset"); strings.Contains(out, "@"+clients) || strings.Contains(out, "map "+clients) {
		t.Errorf("#11 affinity rules are left:\n%s", out)
	}
	s.set(affine, remoteA, remoteB)
	s.wantStuck(client1, viaClusterIP)
}

func TestAffinityLocal(t *testing.T) {
	s := newStickyLab(t, Options{})
	local := both(externals, affine, func(svc *service.Service) { svc.ExternalLocal = true })
	s.set(local, remoteA)
	s.wantStuck(client1, viaClusterIP) // the record names the remote endpoint
	s.set(local, podA, podB, remoteA)
	t.Run("#13 a client stays on one local endpoint whatever the cluster path remembers", func(t *testing.T) {
		s.tb = t
		if got := s.wantStuck(client1, viaLoadBalancer, viaNodePort); got != podA && got != podB {
			t.Errorf("reached %s, which is not local", got)
		}
	})
}

func TestAffinityFull(t *testing.T) {
	s := newStickyLab(t, Options{AffinityClients: 1})
	s.set(affine, remoteA, remoteB)
	s.wantStuck(client1, viaClusterIP)
	seen := map[string]bool{}
	for range 40 {
		seen[s.dial(client2, viaClusterIP)] = true
	}
	if len(seen) != 2 {
		t.Errorf("a client beyond the limit reached %v, want both endpoints", seen)
	}
	s.wantStuck(client1, viaClusterIP)
}

// TestAffinityOutlivesTable replaces the tables for every reason there is.
func TestAffinityOutlivesTable(t *testing.T) {
	s := newStickyLab(t, Options{})
	s.set(both(externals, affine), podA, remoteA, remoteB)
	where := make(map[string]string)
	sources := []string{client1, client2}
	for _, source := range sources {
		where[source] = s.wantStuck(source, viaClusterIP)
	}
	tests := []struct {
		name string
		opts Options
		nft  string // before
	}{
		{"fault F16 another mark", Options{MasqueradeMark: 0x8000}, ""},
		{"fault F16 another limit of clients", Options{AffinityClients: 100}, ""},
		{"fault F16 a base chain is gone", Options{AffinityClients: 100}, "delete chain ip vipkit filter-input"},
		{"fault F16 a map is another", Options{AffinityClients: 100}, "delete set ip vipkit allowed-nodeport-sources"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.tb = t
			if tt.nft != "" {
				s.list("flush", "chain", "ip", "vipkit", chainFirewallPorts)
				s.list(strings.Fields(tt.nft)...)
			}
			s.b = newBackend(t, tt.opts)
			r := record(s.b)
			s.cursor.Reset()
			s.within(s.lab, s.b, plan.Input{})
			if !strings.Contains(strings.Join(r.texts, ""), "delete table ip ") {
				t.Fatal("the table was not replaced")
			}
			if out := s.list("list", "ruleset"); !regexp.MustCompile(`192\.0\.2\.1 timeout 3h expires 2h59m`).MatchString(out) {
				t.Errorf("the clients' time is not in\n%s", out)
			}
			for _, source := range sources {
				if now := s.wantStuck(source, viaClusterIP); now != where[source] {
					t.Errorf("%s moved from %s to %s", source, where[source], now)
				}
			}
		})
	}
}
