package conntrack_test

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends/conntrack"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

const (
	udp = corev1.ProtocolUDP
	tcp = corev1.ProtocolTCP
	v4  = corev1.IPv4Protocol
	v6  = corev1.IPv6Protocol
)

// A world is a node with Services, and the plan of it that a consumer follows.
type world struct {
	plan   *plan.Plan
	cursor plan.Cursor
	cfg    plan.Config
	in     plan.Input
}

// newWorld is node n1 with addresses 192.168.0.2 and 2001:db8::2, and 172.17.0.1 of a bridge.
func newWorld() *world {
	w := &world{cfg: plan.Config{Node: plan.Node{
		Name:      "n1",
		Addresses: []netip.Addr{netip.MustParseAddr("192.168.0.2"), netip.MustParseAddr("2001:db8::2"), netip.MustParseAddr("172.17.0.1")},
		PodCIDRs:  []netip.Prefix{netip.MustParsePrefix("10.180.0.0/24")},
	}}}
	w.plan = plan.New(w.cfg)
	w.clear()
	return w
}

func (w *world) clear() {
	w.in = plan.Input{Services: map[types.NamespacedName]*service.Service{}, Endpoints: map[types.NamespacedName]*endpoints.Set{}}
}

// dns is Service ns1/dns, UDP 53, with every kind of frontend, changed by the functions.
func dns(changes ...func(*service.Service)) *service.Service {
	s := &service.Service{
		Name:  nsn("dns"),
		Ports: []service.Port{{Name: "dns", Protocol: udp, Port: 53, NodePort: 30053}},
		IPv4: service.Addresses{
			ClusterIP:       netip.MustParseAddr("10.96.0.10"),
			ExternalIPs:     []netip.Addr{netip.MustParseAddr("198.51.100.7")},
			LoadBalancerIPs: []netip.Addr{netip.MustParseAddr("5.5.5.5")},
		},
		IPv6: service.Addresses{ClusterIP: netip.MustParseAddr("fd00:96::10")},
	}
	for _, c := range changes {
		c(s)
	}
	return s
}

func nsn(n string) types.NamespacedName { return types.NamespacedName{Namespace: "ns1", Name: n} }

// set puts Services into the world.
func (w *world) set(services ...*service.Service) *world {
	for _, s := range services {
		w.in.Services[s.Name] = s
	}
	return w
}

// remove deletes ns1/dns and its endpoints.
func (w *world) remove() *world {
	w.in.Services[nsn("dns")], w.in.Endpoints[nsn("dns")] = nil, nil
	return w
}

// eps sets the endpoints of ns1/dns: addresses with port 53, ready unless one of the words
// T (terminating, serving), X (terminating, not serving), S (not ready, serving) or N
// (neither) is behind it. They are on node n1 unless "remote" is behind it.
func (w *world) eps(list ...string) *world { return w.epsOf("dns", list...) }

func (w *world) epsOf(svc string, list ...string) *world {
	lists := map[endpoints.Key][]endpoints.Endpoint{}
	for _, text := range list {
		words := strings.Fields(text)
		e := endpoints.Endpoint{
			Addr:     netip.AddrPortFrom(netip.MustParseAddr(words[0]), 53),
			Ready:    len(words) == 1 || words[1] == "remote",
			Serving:  !slices.Contains(words, "X") && !slices.Contains(words, "N"),
			NodeName: "n1", Weight: 1,
		}
		e.Terminating = slices.Contains(words, "T") || slices.Contains(words, "X")
		if slices.Contains(words, "remote") {
			e.NodeName = "n2"
		}
		k := endpoints.Key{Port: "dns", Protocol: udp, Family: v4}
		if e.Addr.Addr().Is6() {
			k.Family = v6
		}
		lists[k] = append(lists[k], e)
		k.Protocol = tcp
		lists[k] = append(lists[k], e)
	}
	w.in.Endpoints[nsn(svc)] = endpoints.NewSet(lists)
	return w
}

// delta returns what the consumer has to do after what came into the world.
func (w *world) delta() *plan.Delta {
	w.in.Config = &w.cfg
	next, diff := w.plan.Update(w.in)
	w.plan = next
	w.clear()
	w.cursor.Note(diff)
	return w.cursor.Delta(next)
}

// done is delta for a consumer that does what it has to do.
func (w *world) done() *world {
	if d := w.delta(); d != nil {
		w.cursor.Done(d, nil)
	}
	return w
}

// stale returns which of the flows are stale after what came into the world.
func (w *world) stale(flows ...conntrack.Flow) []string { return staleBy(w.delta(), nil, flows...) }

func staleBy(d *plan.Delta, local []netip.Addr, flows ...conntrack.Flow) []string {
	if d == nil {
		return nil
	}
	var out []string
	for _, f := range flows {
		family := v4
		if f.Destination.Addr().Is6() {
			family = v6
		}
		if conntrack.NewJudge(d, family, local).Stale(f) {
			out = append(out, text(f))
		}
	}
	return out
}

// flow reads "10.96.0.10:53>10.180.0.1:53": the destination and where answers come from.
func flow(s string) conntrack.Flow {
	dst, src, _ := strings.Cut(s, ">")
	f := conntrack.Flow{Destination: netip.MustParseAddrPort(dst), ReplySource: netip.MustParseAddrPort(src)}
	f.Source = netip.MustParseAddrPort("10.180.0.99:40000")
	if f.Destination.Addr().Is6() {
		f.Source = netip.MustParseAddrPort("[fd00:180::99]:40000")
	}
	return f
}

func flows(list ...string) []conntrack.Flow {
	var out []conntrack.Flow
	for _, s := range list {
		out = append(out, flow(s))
	}
	return out
}

func text(f conntrack.Flow) string { return fmt.Sprintf("%s>%s", f.Destination, f.ReplySource) }

// A fakeTable is a Table in memory.
type fakeTable struct {
	flows   []conntrack.Flow
	deleted []string
	reads   int
	fail    map[int]error // what a read ends with, by its number; 1 is the first
	cut     int           // how many flows a read that fails yields
	refuse  error         // what Delete fails with
}

func (t *fakeTable) Flows(_ context.Context, f corev1.IPFamily) iter.Seq2[conntrack.Flow, error] {
	return func(yield func(conntrack.Flow, error) bool) {
		t.reads++
		err := t.fail[t.reads]
		for i, flow := range slices.Clone(t.flows) {
			if err != nil && i == t.cut {
				break
			}
			if flow.Destination.Addr().Is4() == (f == v4) && !yield(flow, nil) {
				return
			}
		}
		if err != nil {
			yield(conntrack.Flow{}, err)
		}
	}
}

func (t *fakeTable) Delete(_ context.Context, flows []conntrack.Flow) (int, error) {
	if t.refuse != nil {
		return 0, t.refuse
	}
	n := 0
	for _, f := range flows {
		if i := slices.Index(t.flows, f); i >= 0 {
			t.flows = slices.Delete(t.flows, i, i+1)
			t.deleted = append(t.deleted, text(f))
			n++
		}
	}
	return n, nil
}

func (t *fakeTable) want(tb testing.TB, deleted ...string) {
	tb.Helper()
	if !slices.Equal(t.deleted, deleted) {
		tb.Errorf("deleted %q, want %q", t.deleted, deleted)
	}
	t.deleted = nil
}
