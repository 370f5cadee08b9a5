package endpoints_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/vipkit/vipkit/endpoints"
)

// A model is the slow, obvious tracker: all slices, merged anew at every look.
type model map[string]*discoveryv1.EndpointSlice

// A claimed is an endpoint as one slice has it.
type claimed struct {
	state, node, zone, forNode, at string
}

// rank is the order of the specification.
func (c claimed) rank() int {
	return slices.Index([]string{"R", "S", "N", "P", "PX", "T", "X"}, c.state)
}

// first returns the first of a list with what only others know.
func first(list []claimed) claimed {
	c := list[0]
	for _, o := range list {
		c.node, c.zone, c.forNode = cmp.Or(c.node, o.node), cmp.Or(c.zone, o.zone), cmp.Or(c.forNode, o.forNode)
	}
	return c
}

// said returns what a slice says of each address.
func said(s *discoveryv1.EndpointSlice) map[string]claimed {
	lists := make(map[string][]claimed)
	for _, in := range s.Endpoints {
		for _, p := range s.Ports {
			addr := *p.Name + " " + in.Addresses[0] + ":" + strconv.Itoa(int(*p.Port))
			c := claimed{state: stateOf(in), node: *in.NodeName, at: s.Annotations[triggerAnnotation]}
			for _, z := range in.Hints.ForZones {
				c.zone = z.Name
			}
			for _, n := range in.Hints.ForNodes {
				c.forNode = n.Name
			}
			lists[addr] = append(lists[addr], c)
		}
	}
	out := make(map[string]claimed)
	for addr, list := range lists {
		slices.SortStableFunc(list, func(a, b claimed) int { return a.rank() - b.rank() })
		out[addr] = first(list)
	}
	return out
}

// text returns the endpoints of every Service that has some, as describe does.
func (m model) text() map[types.NamespacedName]string {
	lists := make(map[types.NamespacedName]map[string][]claimed)
	for _, s := range m {
		svc := name(s.Labels["kubernetes.io/service-name"])
		if lists[svc] == nil {
			lists[svc] = make(map[string][]claimed)
		}
		for addr, c := range said(s) {
			lists[svc][addr] = append(lists[svc][addr], c)
		}
	}
	out := make(map[types.NamespacedName]string)
	for svc, addrs := range lists {
		for _, addr := range slices.Sorted(maps.Keys(addrs)) {
			slices.SortFunc(addrs[addr], func(a, b claimed) int {
				return cmp.Or(a.rank()-b.rank(), strings.Compare(b.at, a.at), strings.Compare(b.node, a.node),
					strings.Compare(b.zone, a.zone), strings.Compare(b.forNode, a.forNode))
			})
			c := first(addrs[addr])
			out[svc] += strings.Join([]string{addr, c.state, c.node, c.zone, c.forNode}, " ") + "\n"
		}
	}
	return out
}

func stateOf(in discoveryv1.Endpoint) string {
	return state(&endpoints.Endpoint{
		Ready: *in.Conditions.Ready, Serving: *in.Conditions.Serving, Terminating: *in.Conditions.Terminating,
	})
}

// describe returns a Set in the form of the model.
func describe(s *endpoints.Set) string {
	var b strings.Builder
	for k, eps := range s.All() {
		for _, e := range eps {
			fmt.Fprintln(&b, k.Port, e, state(e), e.NodeName, strings.Join(e.Hints.Zones(), ""), strings.Join(e.Hints.Nodes(), ""))
		}
	}
	return b.String()
}

// randomSlice makes one of few slices with few addresses, so that claims collide.
func randomSlice(r *rand.Rand) *discoveryv1.EndpointSlice {
	states := []string{"R", "N", "T", "X", "P", "PX", "S"}
	s := newSlice("s"+strconv.Itoa(r.IntN(5)), "svc"+strconv.Itoa(r.IntN(2)))
	s.Ports = nil
	for _, p := range []string{"p", "q"} {
		if r.IntN(3) > 0 {
			s.Ports = append(s.Ports, newPort(p, 80+int32(r.IntN(2))))
		}
	}
	if n := r.IntN(4); n > 0 {
		triggered(s, fmt.Sprintf("2020-01-01T00:00:0%dZ", n))
	}
	for range r.IntN(12) {
		e := newEndpoint("10.0.0."+strconv.Itoa(r.IntN(12)), states[r.IntN(len(states))])
		pick := func(names ...string) string { return names[r.IntN(len(names))] }
		e.NodeName = ptr.To(pick("", "n1", "n2"))
		e.Hints = &discoveryv1.EndpointHints{}
		if z := pick("", "za", "zb"); z != "" {
			e.Hints.ForZones = []discoveryv1.ForZone{{Name: z}}
		}
		if n := pick("", "n1"); n != "" {
			e.Hints.ForNodes = []discoveryv1.ForNode{{Name: n}}
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

// A replica is a consumer that applies only what is pending.
type replica map[types.NamespacedName]string

func (c replica) take(changes endpoints.Changes) {
	for n, set := range changes.Sets {
		if set == nil {
			delete(c, n)
			continue
		}
		c[n] = describe(set)
	}
}

// FuzzMerge replays events on a tracker and on the model. A consumer that only
// sees pending changes, some of which it fails to apply, must end up with the
// model's state; so must a tracker that saw the same slices in another order.
func FuzzMerge(f *testing.F) {
	for seed := range uint64(20) {
		f.Add(seed, uint8(40))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8) {
		r := rand.New(rand.NewPCG(seed, 0))
		tr, m, c := load(t), model{}, replica{}
		for range steps {
			step(t, r, tr, m)
			if r.IntN(3) > 0 {
				continue
			}
			if r.IntN(4) == 0 {
				c.take(tr.Pending())
			} else {
				c.take(tr.Take())
			}
			if !maps.Equal(c, m.text()) {
				t.Fatalf("the consumer has\n%v\nwant\n%v", c, m.text())
			}
		}
		checkCold(t, r, m)
	})
}

// step makes one random event.
func step(t *testing.T, r *rand.Rand, tr *endpoints.EndpointsChangeTracker, m model) {
	t.Helper()
	s := randomSlice(r)
	if old := m[s.Name]; old != nil && r.IntN(4) == 0 { // another time only
		at := s.Annotations[triggerAnnotation]
		s = old.DeepCopy()
		triggered(s, at)
	}
	before := m.text()
	var changed bool
	switch n := r.IntN(10); {
	case n < 7:
		changed, _ = tr.Set(s)
		m[s.Name] = s
	case n < 9:
		changed = tr.Delete(name(s.Name))
		delete(m, s.Name)
	default:
		changed, _ = tr.Replace([]*discoveryv1.EndpointSlice{s})
		clear(m)
		m[s.Name] = s
	}
	if !changed && !maps.Equal(before, m.text()) {
		t.Fatalf("an event with %s is no change, want one", s.Name)
	}
}

// checkCold feeds the slices of m in random order to new trackers.
func checkCold(t *testing.T, r *rand.Rand, m model) {
	t.Helper()
	names := slices.Sorted(maps.Keys(m))
	for range 3 {
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		tr, c := load(t), replica{}
		for _, n := range names {
			tr.Set(m[n])
			if r.IntN(2) == 0 {
				c.take(tr.Pending())
			}
		}
		c.take(tr.Pending())
		if !maps.Equal(c, m.text()) {
			t.Fatalf("in order %v\n%v\nwant\n%v", names, c, m.text())
		}
	}
}

// FuzzSlice gives a tracker slices with odd fields: it must neither panic nor
// publish an endpoint that breaks the promises of Endpoint.
func FuzzSlice(f *testing.F) {
	f.Add("10.0.0.1", "IPv4", "p", int32(80), "TCP", "svc", "")
	f.Add("::ffff:10.0.0.1", "IPv6", "", int32(0), "", "", "x")
	f.Add("010.0.0.01", "FQDN", "p", int32(-1), "udp", "svc", "2026-01-01T00:00:00.000000001Z")
	f.Add("fe80::1%eth0", "IPv6", "p", int32(65535), "SCTP", "svc", "")
	f.Fuzz(func(t *testing.T, addr, family, port string, number int32, protocol, service, at string) {
		s := triggered(newSlice("s1", service, newEndpoint(addr, "R"), newEndpoint("", ""), newEndpoint(addr, "")), at)
		s.AddressType = discoveryv1.AddressType(family)
		s.Ports = append(s.Ports, newPort(port, number))
		*s.Ports[1].Protocol = corev1.Protocol(protocol)
		tr := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
		tr.Set(s)
		for _, set := range tr.Pending().Sets {
			checkSet(t, set)
		}
	})
}

func checkSet(t *testing.T, set *endpoints.Set) {
	t.Helper()
	for k, eps := range set.All() {
		if len(eps) == 0 || !slices.IsSortedFunc(eps, endpoints.Compare) {
			t.Errorf("%v has the list %v", k, eps)
		}
		for _, e := range eps {
			if a := e.Addr.Addr(); !a.IsValid() || a.Is4In6() || a.Zone() != "" || a.Is6() != (k.Family == "IPv6") || e.Addr.Port() == 0 {
				t.Errorf("%v has the endpoint %v", k, e)
			}
		}
	}
}
