package ipvs_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/backends/ipvs/ipvstest"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

func addr(s string) netip.Addr     { return netip.MustParseAddr(s) }
func prefix(s string) netip.Prefix { return netip.MustParsePrefix(s) }

func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

// A world is a node n1, whose Services a test changes step by step: in memory, or with the
// kernel.
type world struct {
	t     *testing.T
	ipvs  ipvs.KernelMethods
	links ipvs.Links
	table ipvs.Table
	nft   knftables.Interface // to look into the table
	opts  ipvs.Options

	// kernel, addrs and fake are what is in memory, nil with the kernel.
	kernel *ipvstest.Memory
	addrs  *ipvs.MemoryLinks
	fake   *ipvs.FakeTable

	// other puts an address on another interface.
	other func(a netip.Addr)

	backend *ipvs.Backend
	config  plan.Config
	plan    *plan.Plan
	cursor  plan.Cursor
}

func newWorld(t *testing.T, opts ipvs.Options) *world {
	t.Helper()
	m, l, fake := &ipvstest.Memory{}, &ipvs.MemoryLinks{}, ipvs.NewFakeTable()
	w := &world{t: t, ipvs: ipvs.Behind(m.Kernel()), kernel: m, links: l, addrs: l, table: fake, nft: fake, fake: fake, opts: opts}
	w.other = func(a netip.Addr) { l.Rest = append(l.Rest, a) }
	w.start()
	return w
}

// start makes the node, which has no Services yet.
func (w *world) start() {
	w.t.Helper()
	w.config = plan.Config{Node: plan.Node{
		Name:      "n1",
		Addresses: []netip.Addr{addr("192.0.2.2"), addr("2001:db8::2")},
		PodCIDRs:  []netip.Prefix{prefix("10.180.0.0/24"), prefix("fd00:10:180::/64")},
	}}
	w.plan = plan.New(w.config)
	w.restart()
}

// worlds returns what the table of Services is tried on.
func worlds() map[string]func(t *testing.T) *world {
	return map[string]func(t *testing.T) *world{
		"memory": func(t *testing.T) *world { t.Helper(); return newWorld(t, ipvs.Options{}) },
		"kernel": newKernelWorld,
	}
}

// restart puts a Backend that knows nothing in the place of the last one.
func (w *world) restart() {
	w.t.Helper()
	b, err := ipvs.NewOn(w.opts, w.ipvs, w.links, w.table)
	if err != nil {
		w.t.Fatal(err)
	}
	w.backend = b
	w.cursor.Reset()
}

// try brings a change to the Backend.
func (w *world) try(in plan.Input) error {
	in.Config = &w.config
	next, diff := w.plan.Update(in)
	w.plan = next
	w.cursor.Note(diff)
	d := w.cursor.Delta(next)
	if d == nil {
		w.t.Fatal("nothing to do")
	}
	err := w.backend.Sync(w.t.Context(), d)
	w.cursor.Done(d, err)
	return err
}

// sync brings a change to the ipvs.Backend, which must succeed, and returns what it did.
func (w *world) sync(in plan.Input) backends.Stats {
	w.t.Helper()
	if err := w.try(in); err != nil {
		w.t.Fatalf("Sync: %v", err)
	}
	return w.backend.LastStats()
}

// An app is a Service in namespace ns1 with one TCP port, number 80, unless change says
// other, and its endpoints.
type app struct {
	name   string
	vip    string // ClusterIPs, by spaces
	change func(*service.Service)
	eps    string // as in "10.180.0.1:8080@n1 10.180.1.1:8080", by spaces
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
		n := nameOf(a.name)
		in.Services[n] = a.service()
		in.Endpoints[n] = a.endpoints(in.Services[n])
	}
	return in
}

func withoutWeb() plan.Input {
	n := nameOf("web")
	return plan.Input{
		Services:  map[types.NamespacedName]*service.Service{n: nil},
		Endpoints: map[types.NamespacedName]*endpoints.Set{n: nil},
	}
}

func (a app) service() *service.Service {
	s := &service.Service{Name: nameOf(a.name), Ports: []service.Port{{Protocol: corev1.ProtocolTCP, Port: 80}}}
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

func (a app) endpoints(s *service.Service) *endpoints.Set {
	lists := make(map[endpoints.Key][]endpoints.Endpoint)
	for text := range strings.FieldsSeq(a.eps) {
		at, node, _ := strings.Cut(text, "@")
		e := endpoints.Endpoint{Addr: addrPort(at), Ready: true, Serving: true, NodeName: node, Weight: 1}
		for _, p := range s.Ports {
			k := endpoints.Key{Port: p.Name, Protocol: p.Protocol, Family: ip.Family(e.Addr.Addr())}
			lists[k] = append(lists[k], e)
		}
	}
	return endpoints.NewSet(lists)
}

const (
	here  = "10.180.0.1:8080@n1"
	there = "10.180.1.1:8080@n2"
	both  = here + " " + there
)

func external(ip string) func(*service.Service) {
	return func(s *service.Service) { s.IPv4.ExternalIPs = []netip.Addr{addr(ip)} }
}

func local(change func(*service.Service)) func(*service.Service) {
	return func(s *service.Service) {
		s.ExternalLocal = true
		change(s)
	}
}

func nodePort(s *service.Service) { s.Ports[0].NodePort = 30080 }

// servers returns all virtual servers, by name, as "SCHEDULER ADDR=WEIGHT ...".
func (w *world) servers() map[string]string {
	w.t.Helper()
	list, err := w.ipvs.Servers()
	if err != nil {
		w.t.Fatal(err)
	}
	out := make(map[string]string)
	for _, v := range list {
		name := v.String()
		if v.Mark != 0 {
			name = "mark " + string(v.Family)
		}
		found, err := w.ipvs.RealServers(v.ServerKey)
		if err != nil {
			w.t.Fatal(err)
		}
		slices.SortFunc(found, func(a, b ipvs.RealServer) int { return a.Addr.Compare(b.Addr) })
		words := []string{v.Scheduler}
		for _, s := range found {
			text := s.Addr.String()
			if s.Weight != 1 {
				text = fmt.Sprintf("%s=%d", text, s.Weight)
			}
			words = append(words, text)
		}
		out[name] = strings.Join(words, " ")
	}
	return out
}

// wantUnchanged expects that everything is as the last Sync left it.
func (w *world) wantUnchanged() {
	w.t.Helper()
	if changed, err := w.backend.Check(w.t.Context()); len(changed) > 0 || err != nil {
		w.t.Errorf("Check() = %q, %v, want nothing", changed, err)
	}
}

func (w *world) wantServers(want map[string]string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.servers()); diff != "" {
		w.t.Errorf("virtual servers (-want +got):\n%s", diff)
	}
}

func (w *world) wantBound(want ...string) {
	w.t.Helper()
	bound, err := ipvs.Bound(w.links)
	if err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for _, a := range slices.SortedFunc(maps.Keys(bound), netip.Addr.Compare) {
		got = append(got, a.String())
	}
	if !slices.Equal(got, want) {
		w.t.Errorf("bound addresses %v, want %v", got, want)
	}
}

// box returns the elements of a set or map, sorted.
func (w *world) box(name string) []string {
	w.t.Helper()
	kind := "set"
	if ipvs.IsMap(name) {
		kind = "map"
	}
	list, err := w.nft.ListElements(w.t.Context(), kind, name)
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		text := strings.Join(e.Key, " . ")
		if e.Value != nil {
			text += " : " + strings.Join(e.Value, " ")
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}

func (w *world) wantBox(name string, want ...string) {
	w.t.Helper()
	if got := w.box(name); !slices.Equal(got, want) {
		w.t.Errorf("elements of %s: %q, want %q", name, got, want)
	}
}
