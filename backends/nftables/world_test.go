package nftables

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

func addr(s string) netip.Addr         { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix     { return netip.MustParsePrefix(s) }
func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// nodeConfig is a node n1 with one address and one range of pods in each family.
func nodeConfig() plan.Config {
	return plan.Config{Node: plan.Node{
		Name:      "n1",
		Addresses: []netip.Addr{addr("192.0.2.2"), addr("2001:db8::2")},
		PodCIDRs:  []netip.Prefix{prefix("10.180.0.0/24"), prefix("fd00:10:180::/64")},
	}}
}

func newBackend(tb testing.TB, opts Options) *Backend {
	tb.Helper()
	b, err := New(opts)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// A world is a node whose Services a test changes step by step.
type world struct {
	tb     testing.TB
	plan   *plan.Plan
	cursor plan.Cursor
}

func newWorld(tb testing.TB, cfg plan.Config) *world {
	tb.Helper()
	return &world{tb: tb, plan: plan.New(cfg)}
}

// update makes a new plan and returns the delta, nil if nothing differs.
func (w *world) update(in plan.Input) *plan.Delta {
	next, diff := w.plan.Update(in)
	w.plan = next
	w.cursor.Note(diff)
	return w.cursor.Delta(next)
}

// try brings a change to a backend.
func (w *world) try(b *Backend, in plan.Input) error {
	d := w.update(in)
	if d == nil {
		return nil
	}
	err := b.Sync(w.tb.Context(), d)
	w.cursor.Done(d, err)
	return err
}

// sync brings a change to a backend, which must succeed, and returns what it did.
func (w *world) sync(b *Backend, in plan.Input) backends.Stats {
	w.tb.Helper()
	b.last = backends.Stats{}
	if err := w.try(b, in); err != nil {
		w.tb.Fatalf("Sync: %v", err)
	}
	return b.LastStats()
}

// restart brings the whole plan to another backend.
func (w *world) restart(b *Backend) {
	w.tb.Helper()
	w.cursor.Reset()
	w.sync(b, plan.Input{})
}

// An app is a Service in namespace ns1 with one port "p80", number 80, unless change
// says other, and its endpoints.
type app struct {
	name   string
	vip    string // ClusterIPs, by spaces
	change func(*service.Service)
	eps    string // as in "10.180.0.1:8080@n1 10.180.1.1:8080", by spaces
	gone   bool   // delete it
}

func nameOf(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ns1", Name: name}
}

// with returns the input that sets apps.
func with(apps ...app) plan.Input {
	in := plan.Input{
		Services:  make(map[types.NamespacedName]*service.Service),
		Endpoints: make(map[types.NamespacedName]*endpoints.Set),
	}
	for _, a := range apps {
		n := nameOf(a.name)
		in.Services[n], in.Endpoints[n] = nil, nil
		if !a.gone {
			in.Services[n] = a.service()
			in.Endpoints[n] = a.endpoints(in.Services[n])
		}
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
	if a.change != nil {
		a.change(s)
	}
	return s
}

// endpoints gives every port of the Service the same endpoints.
func (a app) endpoints(s *service.Service) *endpoints.Set {
	lists := make(map[endpoints.Key][]endpoints.Endpoint)
	for text := range strings.FieldsSeq(a.eps) {
		at, node, _ := strings.Cut(text, "@")
		e := endpoints.Endpoint{Addr: addrPort(at), Ready: true, Serving: true, NodeName: node, Weight: 1}
		family := corev1.IPv4Protocol
		if e.Addr.Addr().Is6() {
			family = corev1.IPv6Protocol
		}
		for _, p := range s.Ports {
			k := endpoints.Key{Port: p.Name, Protocol: p.Protocol, Family: family}
			lists[k] = append(lists[k], e)
		}
	}
	return endpoints.NewSet(lists)
}

// externals gives a Service an address of every kind.
func externals(s *service.Service) {
	s.Ports[0].NodePort = 30080
	s.IPv4.ExternalIPs = []netip.Addr{addr("198.51.100.9")}
	s.IPv4.LoadBalancerIPs = []netip.Addr{addr("203.0.113.5")}
	s.IPv6.LoadBalancerIPs = []netip.Addr{addr("2001:db8:1::5")}
}

func affine(s *service.Service) { s.AffinityTimeout = 3 * time.Hour }

func both(changes ...func(*service.Service)) func(*service.Service) {
	return func(s *service.Service) {
		for _, c := range changes {
			c(s)
		}
	}
}

const (
	two  = "10.180.0.1:8080@n1 10.180.1.1:8080@n2"
	dual = two + " [fd00:10:180::1]:8080@n1 [fd00:10:180:1::1]:8080@n2"
)

// everything is a set of apps with every kind of object.
func everything() []app {
	ranges := func(s *service.Service) {
		s.IPv4.SourceRanges = append(s.IPv4.SourceRanges, prefix("192.0.2.0/24"), prefix("10.0.0.0/8"))
		s.IPv6.SourceRanges = append(s.IPv6.SourceRanges, prefix("2000::/3"))
	}
	vips := func(n int) func(*service.Service) {
		return func(s *service.Service) {
			externals(s)
			s.Ports[0].NodePort += uint16(n)
			s.IPv4.ExternalIPs[0] = addr(fmt.Sprintf("198.51.100.%d", n))
			s.IPv4.LoadBalancerIPs[0] = addr(fmt.Sprintf("203.0.113.%d", n))
			s.IPv6.LoadBalancerIPs[0] = addr(fmt.Sprintf("2001:db8:1::%d", n))
		}
	}
	local := func(s *service.Service) { s.ExternalLocal, s.InternalLocal = true, true }
	return []app{
		{name: "plain", vip: "10.96.0.10 fd00:96::10", eps: dual},
		{name: "outside", vip: "10.96.0.11 fd00:96::11", eps: dual, change: vips(1)},
		{name: "empty", vip: "10.96.0.12", change: both(vips(2), ranges)},
		{name: "sticky", vip: "10.96.0.13 fd00:96::13", eps: dual, change: both(vips(3), affine)},
		{name: "local", vip: "10.96.0.14 fd00:96::14", eps: dual, change: both(vips(4), local, ranges)},
		{name: "elsewhere", vip: "10.96.0.15", eps: "10.180.1.1:8080@n2", change: both(vips(5), local)},
		{name: "sticky-local", vip: "10.96.0.16", eps: dual, change: both(vips(6), local, affine)},
	}
}

// many returns n ClusterIP Services with ten endpoints each.
func many(n int) plan.Input {
	in := plan.Input{
		Services:  make(map[types.NamespacedName]*service.Service, n),
		Endpoints: make(map[types.NamespacedName]*endpoints.Set, n),
	}
	for i := range n {
		name := nameOf(fmt.Sprintf("svc%d", i))
		svc := &service.Service{Name: name, Ports: []service.Port{{Name: "p80", Protocol: corev1.ProtocolTCP, Port: 80}}}
		svc.IPv4.ClusterIP = netip.AddrFrom4([4]byte{10, 96 + byte(i>>16), byte(i >> 8), byte(i)})
		in.Services[name], in.Endpoints[name] = svc, tenOf(i, 10, "n2")
	}
	return in
}

// tenOf returns the first k of the ten endpoints of Service i.
func tenOf(i, k int, node string) *endpoints.Set {
	eps := make([]endpoints.Endpoint, k)
	for j := range eps {
		n := i*10 + j
		at := netip.AddrFrom4([4]byte{10, 128 + byte(n>>16), byte(n >> 8), byte(n)})
		eps[j] = endpoints.Endpoint{Addr: netip.AddrPortFrom(at, 8080), Ready: true, Serving: true, NodeName: node, Weight: 1}
	}
	k4 := endpoints.Key{Port: "p80", Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}
	return endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{k4: eps})
}
