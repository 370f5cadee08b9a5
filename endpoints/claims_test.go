package endpoints_test

import (
	"strconv"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/vipkit/vipkit/endpoints"
)

// knowing returns 10.0.0.1 in a state, with what a slice may know besides; "" if it does not.
func knowing(state, node, zone, forNode string) discoveryv1.Endpoint {
	e := newEndpoint("10.0.0.1", state)
	if node != "" {
		e.NodeName = ptr.To(node)
	}
	if zone+forNode == "" {
		return e
	}
	e.Hints = &discoveryv1.EndpointHints{}
	if zone != "" {
		e.Hints.ForZones = []discoveryv1.ForZone{{Name: zone}}
	}
	if forNode != "" {
		e.Hints.ForNodes = []discoveryv1.ForNode{{Name: forNode}}
	}
	return e
}

// known returns what is known of the only endpoint of the Service "svc".
func known(t *testing.T, tr *endpoints.EndpointsChangeTracker) string {
	t.Helper()
	c := tr.Take()
	eps := c.Sets[name("svc")].Get(keyP())
	if len(eps) != 1 {
		t.Fatalf("the Service has %v, want one endpoint", eps)
	}
	e := eps[0]
	words := append([]string{state(e), e.NodeName}, e.Hints.Zones()...)
	return strings.Join(append(words, e.Hints.Nodes()...), " ")
}

const (
	earlier = "2020-01-01T10:00:00Z"
	later   = "2020-01-01T11:00:00.5+01:00" // half a second after earlier
)

// TestClaims has one endpoint in several slices that know different things. What counts
// depends neither on the names of the slices nor on the order of events.
func TestClaims(t *testing.T) {
	type claim struct {
		ep discoveryv1.Endpoint
		at string
	}
	tests := []struct {
		name   string
		claims []claim
		want   string
	}{
		{"fault F03 a poor one and a rich one", []claim{
			{ep: knowing("R", "", "", "")}, {ep: knowing("R", "n1", "za", "h1")},
		}, "R n1 za h1"},
		{"fault F03 a poor one that is newer", []claim{
			{ep: knowing("R", "", "", ""), at: later}, {ep: knowing("R", "n1", "za", ""), at: earlier},
		}, "R n1 za"},
		{"fault F03 each knows something else", []claim{
			{ep: knowing("R", "", "za", ""), at: later}, {ep: knowing("R", "n1", "", "h1"), at: earlier},
		}, "R n1 za h1"},
		{"fault F03 what three know", []claim{
			{ep: knowing("T", "n3", "zc", "h3"), at: later}, {ep: knowing("R", "", "", "")}, {ep: knowing("R", "n2", "zb", ""), at: earlier},
		}, "R n2 zb h3"},
		{"fault F03 B07 the newer one", []claim{
			{ep: knowing("R", "n2", "zb", "h2"), at: earlier}, {ep: knowing("R", "n1", "za", "h1"), at: later},
		}, "R n1 za h1"},
		{"fault F03 any time before none", []claim{
			{ep: knowing("R", "n2", "", "")}, {ep: knowing("R", "n1", "", ""), at: earlier}, {ep: knowing("R", "n3", "", ""), at: "yesterday"},
		}, "R n1"},
		{"fault F03 ready before newer", []claim{
			{ep: knowing("X", "n2", "", ""), at: later}, {ep: knowing("R", "n1", "", ""), at: earlier},
		}, "R n1"},
		{"fault F03 B07 no time: the greater name of a node", []claim{
			{ep: knowing("R", "n10", "zz", "")}, {ep: knowing("R", "n2", "za", "")}, {ep: knowing("R", "n1", "zz", "")},
		}, "R n2 za"},
		{"fault F03 no time, one node: the greater hint", []claim{
			{ep: knowing("R", "n1", "za", "h1")}, {ep: knowing("R", "n1", "zb", "h1")}, {ep: knowing("R", "n1", "", "h2")},
		}, "R n1 zb h1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			permutations(len(tt.claims), func(order []int) {
				list := make([]*discoveryv1.EndpointSlice, len(order))
				for i, o := range order {
					c := tt.claims[o]
					list[o] = triggered(newSlice("s"+strconv.Itoa(i), "svc", c.ep), c.at)
				}
				if got := known(t, load(t, list...)); got != tt.want {
					t.Errorf("names in order %v: %q, want %q", order, got, tt.want)
				}
				tr := settled(t, list[1:]...)
				tr.Set(list[0])
				if got := known(t, tr); got != tt.want {
					t.Errorf("names in order %v, one after the other: %q, want %q", order, got, tt.want)
				}
			})
		})
	}
}

// TestClaimsChange changes what a Service of two slices knows of an endpoint.
func TestClaimsChange(t *testing.T) {
	poor := newSlice("s1", "svc", knowing("R", "", "", ""))
	rich := newSlice("s0", "svc", knowing("R", "n1", "za", ""))
	t.Run("fault F03 the rich one goes", func(t *testing.T) {
		tr := settled(t, poor, rich)
		tr.Delete(name("s0"))
		if got := known(t, tr); got != "R " {
			t.Errorf("got %q, want nothing known", got)
		}
	})
	t.Run("fault F03 the poor one goes", func(t *testing.T) {
		tr := load(t, poor, rich)
		before := tr.Take()
		tr.Delete(name("s1"))
		if got := tr.Pending().Sets[name("svc")]; got != before.Sets[name("svc")] {
			t.Errorf("the Set is another one, %v, want the same", got)
		}
	})
	t.Run("fault F03 a newer time alone", func(t *testing.T) {
		a, b := newSlice("s1", "svc", knowing("R", "n1", "", "")), newSlice("s2", "svc", knowing("R", "n2", "", ""))
		tr := settled(t, triggered(a, earlier), triggered(b, later))
		if changed, _ := tr.Set(triggered(b, "")); !changed {
			t.Error("a time that makes another claim win is no change")
		}
		if got := known(t, tr); got != "R n1" {
			t.Errorf("got %q, want the one that is newer now", got)
		}
	})
	t.Run("fault F03 a newer time and another endpoint", func(t *testing.T) {
		a, b := newSlice("s1", "svc", knowing("R", "n1", "", "")), newSlice("s2", "svc", knowing("R", "n2", "", ""))
		tr := settled(t, triggered(a, earlier), triggered(b, earlier))
		a.Endpoints = append(a.Endpoints, newEndpoint("10.0.0.2", "R"))
		tr.Set(triggered(a, later))
		if got := tr.Pending().Sets[name("svc")].Get(keyP())[0].NodeName; got != "n1" {
			t.Errorf("the endpoint is on %s, want the newer n1", got)
		}
	})
	t.Run("a newer time that decides nothing is no change", func(t *testing.T) {
		a, b := newSlice("s1", "svc", knowing("R", "n1", "", "")), newSlice("s2", "svc", knowing("R", "n1", "", ""), newEndpoint("10.0.0.2", "R"))
		tr := settled(t, triggered(a, earlier), triggered(b, earlier))
		if changed, _ := tr.Set(triggered(b, later)); changed {
			t.Error("an update of metadata is a change")
		}
	})
	t.Run("the same pointer if what is known is the same", func(t *testing.T) {
		tr := settled(t, poor, rich)
		tr.Set(newSlice("s2", "svc", newEndpoint("10.0.0.2", "R")))
		first := tr.Pending().Sets[name("svc")].Get(keyP())[0]
		tr.Set(newSlice("s3", "svc", knowing("R", "n1", "", "")))
		if got := tr.Pending().Sets[name("svc")].Get(keyP())[0]; got != first {
			t.Errorf("another pointer to %v %+v, want the same %+v", got, *got, *first)
		}
	})
}

// TestClaimsInOneSlice has an endpoint several times in one list.
func TestClaimsInOneSlice(t *testing.T) {
	t.Run("fault F03 what only one knows", func(t *testing.T) {
		eps := []discoveryv1.Endpoint{knowing("T", "n3", "", "h3"), knowing("R", "", "", ""), knowing("R", "", "za", "")}
		if got := known(t, load(t, newSlice("s1", "svc", eps...))); got != "R n3 za h3" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("fault F03 the same pointer in the next Set", func(t *testing.T) {
		eps := []discoveryv1.Endpoint{knowing("R", "", "", ""), knowing("R", "n1", "za", "")}
		tr := settled(t, newSlice("s1", "svc", eps...))
		get := func(other string) *endpoints.Endpoint {
			tr.Set(newSlice("s1", "svc", append(ready(other), eps...)...))
			return tr.Pending().Sets[name("svc")].Get(keyP())[0]
		}
		if a, b := get("10.0.0.2"), get("10.0.0.3"); a != b {
			t.Errorf("got %p and %p", a, b)
		}
	})
	t.Run("the first wins", func(t *testing.T) {
		if got := known(t, load(t, newSlice("s1", "svc", knowing("R", "n2", "", ""), knowing("R", "n1", "", ""), knowing("R", "n3", "", "")))); got != "R n2" {
			t.Errorf("got %q, want n2", got)
		}
	})
	t.Run("the first of many wins", func(t *testing.T) {
		eps := []discoveryv1.Endpoint{knowing("R", "first", "", "")}
		for i := range 50 {
			eps = append(eps, newEndpoint("10.0.1."+strconv.Itoa(i), "R"), knowing("R", "later", "", ""))
		}
		s := load(t, newSlice("s1", "svc", eps...)).Pending().Sets[name("svc")]
		if got := s.Get(keyP())[0].NodeName; got != "first" {
			t.Errorf("node %s, want first", got)
		}
	})
}
