package endpoints_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/vipkit/vipkit/endpoints"
)

// permutations calls f with every order of 0..n-1.
func permutations(n int, f func(order []int)) {
	var rec func(order []int)
	rec = func(order []int) {
		if len(order) == n {
			f(order)
			return
		}
		for i := range n {
			if !slices.Contains(order, i) {
				rec(append(slices.Clip(order), i))
			}
		}
	}
	rec(nil)
}

// state is the inverse of newEndpoint.
func state(e *endpoints.Endpoint) string {
	for _, s := range []string{"R", "N", "T", "X", "P", "PX", "S"} {
		c := newEndpoint("", s).Conditions
		if e.Ready == *c.Ready && e.Serving == *c.Serving && e.Terminating == *c.Terminating {
			return s
		}
	}
	return "?"
}

func TestMergeUnion(t *testing.T) {
	port := func(s *discoveryv1.EndpointSlice, number int32) *discoveryv1.EndpointSlice {
		s.Ports[0].Port = ptr.To(number)
		return s
	}
	tests := []struct {
		name   string
		slices []*discoveryv1.EndpointSlice
		want   string
	}{
		{"B02 two slices", []*discoveryv1.EndpointSlice{
			newSlice("s1", "svc", ready("10.0.0.2")...), newSlice("s2", "svc", ready("10.0.0.1")...),
		}, "svc p/TCP/IPv4: 10.0.0.1:80 10.0.0.2:80"},
		{"B03 one endpoint in two slices", []*discoveryv1.EndpointSlice{
			newSlice("s1", "svc", ready("10.0.0.1")...), newSlice("s2", "svc", ready("10.0.0.1")...),
		}, "svc p/TCP/IPv4: 10.0.0.1:80"},
		{"B32 #28 #29 one address with the port of each slice", []*discoveryv1.EndpointSlice{
			newSlice("s1", "svc", ready("10.0.0.1")...), port(newSlice("s2", "svc", ready("10.0.0.1")...), 8080),
		}, "svc p/TCP/IPv4: 10.0.0.1:80 10.0.0.1:8080"},
		{"#29 the number of the slice counts", []*discoveryv1.EndpointSlice{
			port(newSlice("s1", "svc", ready("10.200.0.1")...), 8080), port(newSlice("s2", "svc", ready("10.200.0.2")...), 9090),
		}, "svc p/TCP/IPv4: 10.200.0.1:8080 10.200.0.2:9090"},
		{"#27 slices with different ports", []*discoveryv1.EndpointSlice{
			newSlice("s1", "svc", ready("10.0.0.1")...),
			{
				ObjectMeta: newSlice("s2", "svc").ObjectMeta, AddressType: "IPv4", Endpoints: ready("10.0.0.1"),
				Ports: []discoveryv1.EndpointPort{newPort("o", 79), newPort("p", 80), newPort("q", 81)},
			},
		}, "svc o/TCP/IPv4: 10.0.0.1:79\np/TCP/IPv4: 10.0.0.1:80\nq/TCP/IPv4: 10.0.0.1:81"},
		{"both families in one Service", []*discoveryv1.EndpointSlice{
			newSlice("s1", "svc", ready("10.0.0.1")...),
			{ObjectMeta: newSlice("s2", "svc").ObjectMeta, AddressType: "IPv6", Endpoints: ready("fd00::1"), Ports: newSlice("", "").Ports},
		}, "svc p/TCP/IPv4: 10.0.0.1:80\np/TCP/IPv6: [fd00::1]:80"},
		{"two Services and namespaces do not mix", []*discoveryv1.EndpointSlice{
			newSlice("s1", "a", ready("10.0.0.1")...), newSlice("s2", "b", ready("10.0.0.1")...),
		}, "a p/TCP/IPv4: 10.0.0.1:80\nb p/TCP/IPv4: 10.0.0.1:80"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			permutations(len(tt.slices), func(order []int) {
				tr := load(t)
				for _, i := range order {
					tr.Set(tt.slices[i])
				}
				wantPending(t, tr, strings.Split(tt.want, "\n")...)
			})
		})
	}
}

// TestMergeOrder has two claims for one address: in one slice, and in two slices
// in any order of events, with and without a look at the changes in between.
func TestMergeOrder(t *testing.T) {
	tests := []struct {
		name, a, b, want string
	}{
		{"B04 X then R", "X", "R", "R"},
		{"B05 R then X", "R", "X", "R"},
		{"B06 T and X", "T", "X", "T"},
		{"B06 X and T", "X", "T", "T"},
		{"not ready beats terminating though ready", "P", "N", "N"},
		{"ready beats serving", "S", "R", "R"},
		{"serving beats not serving", "N", "S", "S"},
		{"terminating and ready beats terminating", "T", "PX", "PX"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check := func(how string, tr *endpoints.EndpointsChangeTracker) {
				t.Helper()
				eps := tr.Pending().Sets[name("svc")].Get(keyP())
				if len(eps) != 1 || state(eps[0]) != tt.want {
					t.Errorf("%s: got %v, want one endpoint in state %s", how, eps, tt.want)
				}
			}
			a, b := newEndpoint("10.0.0.1", tt.a), newEndpoint("10.0.0.1", tt.b)
			check("one slice", load(t, newSlice("s1", "svc", a, b)))
			list := []*discoveryv1.EndpointSlice{newSlice("s1", "svc", a), newSlice("s2", "svc", b)}
			permutations(2, func(order []int) {
				tr := load(t, list[order[0]], list[order[1]])
				check("two slices", tr)
				tr = settled(t, list[order[0]])
				tr.Set(list[order[1]])
				check("two slices, one after the other", tr)
			})
		})
	}
}

func TestLoserChanges(t *testing.T) {
	tr := load(t, newSlice("s1", "svc", newEndpoint("10.0.0.1", "T")), newSlice("s2", "svc", newEndpoint("10.0.0.1", "R")))
	before := tr.Pending().Sets[name("svc")]
	if changed, _ := tr.Set(newSlice("s1", "svc", newEndpoint("10.0.0.1", "X"))); !changed {
		t.Error("not reported as a change")
	}
	if after := tr.Pending().Sets[name("svc")]; after != before {
		t.Errorf("the Set is %v, want the same as before, %v", after, before)
	}
}

func TestOverlap(t *testing.T) {
	t.Run("#27 an endpoint moves between slices", func(t *testing.T) {
		permutations(2, func(order []int) {
			list := []*discoveryv1.EndpointSlice{
				newSlice("s1", "svc", ready("10.200.0.1", "10.200.0.2")...), newSlice("s2", "svc", ready("10.200.0.2")...),
			}
			tr := load(t, list[order[0]], list[order[1]])
			both := "svc p/TCP/IPv4: 10.200.0.1:80 10.200.0.2:80"
			wantPending(t, tr, both)
			tr.Set(newSlice("s1", "svc", ready("10.200.0.1")...))
			wantPending(t, tr, both)
			tr.Delete(name("s2"))
			wantPending(t, tr, "svc p/TCP/IPv4: 10.200.0.1:80")
		})
	})
	t.Run("#30 an endpoint becomes unusable and goes", func(t *testing.T) {
		tr := settled(t, newSlice("s1", "svc", newEndpoint("10.0.0.1", "R"), newEndpoint("10.0.0.2", "R")))
		for _, st := range []string{"X", "R", "PX", "P"} {
			tr.Set(newSlice("s1", "svc", newEndpoint("10.0.0.1", st), newEndpoint("10.0.0.2", "R")))
			eps := tr.Pending().Sets[name("svc")].Get(keyP())
			if len(eps) != 2 || state(eps[0]) != st {
				t.Errorf("got %v in state %s, want two, the first in state %s", eps, state(eps[0]), st)
			}
		}
		tr.Set(newSlice("s1", "svc", ready("10.0.0.2")...))
		wantPending(t, tr, "svc p/TCP/IPv4: 10.0.0.2:80")
	})
}

func TestPointersAreKept(t *testing.T) {
	get := func(tr *endpoints.EndpointsChangeTracker) map[string]*endpoints.Endpoint {
		c := tr.Take()
		eps := make(map[string]*endpoints.Endpoint)
		for _, e := range c.Sets[name("svc")].Get(keyP()) {
			eps[e.Addr.Addr().String()] = e
		}
		return eps
	}
	tests := []struct {
		name   string
		before []*discoveryv1.EndpointSlice
		events func(tr *endpoints.EndpointsChangeTracker)
	}{
		{"another endpoint of the slice changes", []*discoveryv1.EndpointSlice{newSlice("s1", "svc", ready("10.0.0.1", "10.0.0.2")...)}, func(tr *endpoints.EndpointsChangeTracker) {
			tr.Set(newSlice("s1", "svc", newEndpoint("10.0.0.3", "R"), newEndpoint("10.0.0.2", "T"), newEndpoint("10.0.0.1", "R")))
		}},
		{"delete and add again", []*discoveryv1.EndpointSlice{newSlice("s1", "svc", ready("10.0.0.1")...)}, func(tr *endpoints.EndpointsChangeTracker) {
			tr.Delete(name("s1"))
			tr.Set(newSlice("s1", "svc", ready("10.0.0.1", "10.0.0.2")...))
		}},
		{"move to another slice", []*discoveryv1.EndpointSlice{newSlice("s1", "svc", ready("10.0.0.1", "10.0.0.2")...)}, func(tr *endpoints.EndpointsChangeTracker) {
			tr.Set(newSlice("s1", "svc", ready("10.0.0.2")...))
			tr.Set(newSlice("s0", "svc", ready("10.0.0.1")...))
		}},
		{"a second slice has it too", []*discoveryv1.EndpointSlice{newSlice("s1", "svc", ready("10.0.0.1", "10.0.0.2")...)}, func(tr *endpoints.EndpointsChangeTracker) {
			tr.Set(newSlice("s2", "svc", ready("10.0.0.1")...))
		}},
		{"the other of two slices goes", []*discoveryv1.EndpointSlice{
			newSlice("s1", "svc", ready("10.0.0.1")...), newSlice("s2", "svc", ready("10.0.0.1", "10.0.0.2")...),
		}, func(tr *endpoints.EndpointsChangeTracker) { tr.Delete(name("s2")) }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := load(t, tt.before...)
			want := get(tr)["10.0.0.1"]
			tt.events(tr)
			if got := get(tr)["10.0.0.1"]; want == nil || got != want {
				t.Errorf("endpoint is %p, want %p as before", got, want)
			}
		})
	}
}

func TestNewSet(t *testing.T) {
	key4 := keyP()
	key6 := endpoints.Key{Port: "p", Protocol: corev1.ProtocolTCP, Family: corev1.IPv6Protocol}
	in := []endpoints.Endpoint{
		{Addr: addrPort("10.0.0.2:80"), NodeName: "a", Ready: true},
		{Addr: addrPort("10.0.0.10:80")},
		{Addr: addrPort("10.0.0.2:80"), NodeName: "b", Ready: true},
		{Addr: addrPort("10.0.0.10:80"), NodeName: "better", Ready: true},
	}
	s := endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{key4: in, key6: {}})
	if got, want := text(s), "p/TCP/IPv4: 10.0.0.10:80 10.0.0.2:80"; got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
	eps := s.Get(key4)
	if eps[0].NodeName != "better" || eps[1].NodeName != "a" {
		t.Errorf("kept %q and %q, want the better and the first", eps[0].NodeName, eps[1].NodeName)
	}
	in[0].NodeName = "changed"
	if eps[1].NodeName != "a" {
		t.Error("the Set shares memory with its input")
	}
	if s.Get(key6) != nil {
		t.Error("a key without endpoints is not nil")
	}
	if empty := endpoints.NewSet(nil); empty != nil || empty.Get(key4) != nil || text(empty) != "" || !empty.Equal(nil) || empty.Equal(s) {
		t.Error("a Set of nothing must be nil and work")
	}
}
