package endpoints_test

import (
	"maps"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
)

func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func TestNoChange(t *testing.T) {
	base := func() *discoveryv1.EndpointSlice { return newSlice("s1", "svc", ready("10.0.0.1", "10.0.0.2")...) }
	tests := []struct {
		name  string
		event func(tr *endpoints.EndpointsChangeTracker) bool
	}{
		{"B29 only metadata", func(tr *endpoints.EndpointsChangeTracker) bool {
			s := base()
			s.ResourceVersion, s.Generation = "2", 3
			s.Annotations = map[string]string{"a": "b"}
			s.Labels["other"] = "label"
			changed, _ := tr.Set(s)
			return changed
		}},
		{"B30 C23 the same object", func(tr *endpoints.EndpointsChangeTracker) bool { changed, _ := tr.Set(base()); return changed }},
		{"the same endpoints in another order", func(tr *endpoints.EndpointsChangeTracker) bool {
			changed, _ := tr.Set(newSlice("s1", "svc", ready("10.0.0.2", "10.0.0.1")...))
			return changed
		}},
		{"fields that are not used", func(tr *endpoints.EndpointsChangeTracker) bool {
			s, zone := base(), "z"
			s.Endpoints[0].Zone, s.Endpoints[0].Hostname = &zone, &zone
			s.Endpoints[0].DeprecatedTopology = map[string]string{"a": "b"}
			s.Endpoints[0].Addresses = append(s.Endpoints[0].Addresses, "10.0.0.9")
			s.Ports[0].AppProtocol = &zone
			changed, _ := tr.Set(s)
			return changed
		}},
		{"B31 delete of an unknown slice", func(tr *endpoints.EndpointsChangeTracker) bool { return tr.Delete(name("s2")) }},
		{"delete in another namespace", func(tr *endpoints.EndpointsChangeTracker) bool {
			return tr.Delete(types.NamespacedName{Namespace: "other", Name: "s1"})
		}},
		{"a slice without endpoints", func(tr *endpoints.EndpointsChangeTracker) bool {
			changed, _ := tr.Set(newSlice("s2", "svc"))
			return changed || tr.Delete(name("s2"))
		}},
		{"the same list", func(tr *endpoints.EndpointsChangeTracker) bool {
			changed, _ := tr.Replace([]*discoveryv1.EndpointSlice{base()})
			return changed
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := settled(t, base())
			if tt.event(tr) {
				t.Error("reported as a change")
			}
			wantPending(t, tr)
		})
	}
}

func TestDirty(t *testing.T) {
	a, b := newSlice("s1", "svc", ready("10.0.0.1")...), newSlice("s1", "svc", ready("10.0.0.2")...)
	t.Run("B25 C18 a Service need not exist", func(t *testing.T) {
		tr := settled(t, a)
		wantPending(t, tr)
		tr.Set(newSlice("s2", "svc", ready("10.0.0.3")...))
		wantPending(t, tr, "svc p/TCP/IPv4: 10.0.0.1:80 10.0.0.3:80")
	})
	t.Run("B27 add and remove in one batch", func(t *testing.T) {
		tr := load(t, a)
		if !tr.Delete(name("s1")) {
			t.Error("the removal is no change")
		}
		wantPending(t, tr, "svc ")
		if set, ok := tr.Pending().Sets[name("svc")]; !ok || set != nil {
			t.Errorf("Set %v, listed %t, want nil and listed", set, ok)
		}
		tr.Take()
		wantPending(t, tr)
	})
	t.Run("B28 #81 remove and add again in one batch", func(t *testing.T) {
		tr := load(t, a)
		c := tr.Take()
		if changed, _ := tr.Set(b); !changed || !tr.Delete(name("s1")) {
			t.Error("not reported as changes")
		}
		if changed, _ := tr.Set(a); !changed {
			t.Error("the new slice is no change")
		}
		wantPending(t, tr, "svc p/TCP/IPv4: 10.0.0.1:80")
		if tr.Pending().Sets[name("svc")] != c.Sets[name("svc")] {
			t.Error("an equal Set is not the same one")
		}
	})
	t.Run("B28 the same beside another slice", func(t *testing.T) {
		tr := load(t, a, newSlice("s2", "svc", ready("10.0.0.3")...))
		c := tr.Pending()
		tr.Delete(name("s1"))
		tr.Set(a)
		wantPending(t, tr, "svc p/TCP/IPv4: 10.0.0.1:80 10.0.0.3:80")
		if tr.Pending().Sets[name("svc")] != c.Sets[name("svc")] {
			t.Error("an equal Set is not the same one")
		}
	})
	t.Run("C10 there and back in one batch", func(t *testing.T) {
		tr := settled(t, a)
		for _, s := range []*discoveryv1.EndpointSlice{b, a} {
			if changed, _ := tr.Set(s); !changed {
				t.Error("not reported as a change")
			}
		}
		wantPending(t, tr, "svc p/TCP/IPv4: 10.0.0.1:80")
	})
	t.Run("B38 delete by name alone", func(t *testing.T) {
		tr := settled(t, a)
		if !tr.Delete(types.NamespacedName{Namespace: "ns", Name: "s1"}) {
			t.Error("not reported as a change")
		}
		wantPending(t, tr, "svc ")
	})
	t.Run("#19 an old slice goes after its successor came", func(t *testing.T) {
		tr := settled(t, newSlice("old", "svc", ready("10.0.0.1")...))
		tr.Set(newSlice("new", "svc", ready("10.0.0.1")...))
		tr.Delete(name("old"))
		wantPending(t, tr, "svc p/TCP/IPv4: 10.0.0.1:80")
	})
}

func TestMove(t *testing.T) {
	slice := func(service string) *discoveryv1.EndpointSlice { return newSlice("s1", service, ready("10.0.0.1")...) }
	t.Run("B26 the label names another Service", func(t *testing.T) {
		tr := settled(t, slice("svc1"))
		if changed, _ := tr.Set(slice("svc2")); !changed {
			t.Error("not reported as a change")
		}
		wantPending(t, tr, "svc1 ", "svc2 p/TCP/IPv4: 10.0.0.1:80")
		tr.Take()
		tr.Delete(name("s1"))
		wantPending(t, tr, "svc2 ")
	})
	lost := map[string]func(s *discoveryv1.EndpointSlice){
		"B26 the label is removed":   func(s *discoveryv1.EndpointSlice) { s.Labels = nil },
		"B26 the label is emptied":   func(s *discoveryv1.EndpointSlice) { s.Labels["kubernetes.io/service-name"] = "" },
		"#31 another proxy takes it": func(s *discoveryv1.EndpointSlice) { s.Labels["service.kubernetes.io/service-proxy-name"] = "x" },
		"it becomes headless":        func(s *discoveryv1.EndpointSlice) { s.Labels["service.kubernetes.io/headless"] = "" },
		"its ports go":               func(s *discoveryv1.EndpointSlice) { s.Ports = nil },
		"its only endpoint goes":     func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil },
		"its only address turns bad": func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses[0] = "x" },
		"its type becomes FQDN":      func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN },
	}
	for test, change := range lost {
		t.Run(test, func(t *testing.T) {
			tr := settled(t, slice("svc"))
			s := slice("svc")
			change(s)
			if changed, _ := tr.Set(s); !changed {
				t.Error("not reported as a change")
			}
			wantPending(t, tr, "svc ")
			tr.Take()
			tr.Set(slice("svc"))
			wantPending(t, tr, "svc p/TCP/IPv4: 10.0.0.1:80")
		})
	}
}

func TestTake(t *testing.T) {
	tr := load(t, newSlice("s1", "a", ready("10.0.0.1")...), newSlice("s2", "b", ready("10.0.0.2")...))
	first := "a p/TCP/IPv4: 10.0.0.1:80\nb p/TCP/IPv4: 10.0.0.2:80"
	if got := pendingText(tr.Pending()); got != first {
		t.Errorf("Pending is %q, want %q", got, first)
	}
	c := tr.Take()
	wantPending(t, tr)
	tr.Set(newSlice("s1", "a", ready("10.0.0.3")...))
	tr.Set(newSlice("s3", "c", ready("10.0.0.4")...))
	wantPending(t, tr, "a p/TCP/IPv4: 10.0.0.3:80", "c p/TCP/IPv4: 10.0.0.4:80")
	if got := pendingText(c); got != first {
		t.Errorf("changes that were handed out became %q, want %q", got, first)
	}
	tr.Take()
	t.Run("C23 nothing twice", func(t *testing.T) {
		if c := tr.Take(); len(c.Sets) != 0 || len(c.Triggers) != 0 {
			t.Errorf("got %v, want nothing", c)
		}
	})
}

func TestReplace(t *testing.T) {
	a, b := newSlice("s1", "a", ready("10.0.0.1")...), newSlice("s2", "b", ready("10.0.0.2")...)
	bad := newSlice("s3", "c", ready("10.0.0.3", "x")...)
	foreign := newSlice("s4", "d", ready("10.0.0.4")...)
	foreign.Labels["service.kubernetes.io/service-proxy-name"] = "x"
	t.Run("slices that are not in the list go", func(t *testing.T) {
		tr := settled(t, a, b, newSlice("s4", "d", ready("10.0.0.4")...))
		changed, problems := tr.Replace([]*discoveryv1.EndpointSlice{b, nil, bad, foreign})
		if !changed {
			t.Error("not reported as a change")
		}
		wantPending(t, tr, "a ", "c p/TCP/IPv4: 10.0.0.3:80", "d ")
		if len(problems) != 1 || strings.Join(fields(problems[name("s3")]), " ") != "endpoints[1].addresses[0]" {
			t.Errorf("problems %v, want one of s3", problems)
		}
	})
	t.Run("late events are harmless", func(t *testing.T) {
		tr := settled(t, a, b)
		tr.Replace([]*discoveryv1.EndpointSlice{b})
		if tr.Delete(name("s1")) {
			t.Error("a late delete is a change")
		}
		if changed, _ := tr.Set(b); changed {
			t.Error("a late event of the same object is a change")
		}
		wantPending(t, tr, "a ")
	})
	t.Run("the later of two versions counts", func(t *testing.T) {
		tr := load(t)
		_, problems := tr.Replace([]*discoveryv1.EndpointSlice{newSlice("s1", "a", ready("10.0.0.9", "x")...), a})
		if len(problems) > 0 {
			t.Errorf("problems %v of a version that does not count", problems)
		}
		wantPending(t, tr, "a p/TCP/IPv4: 10.0.0.1:80")
	})
	t.Run("an empty list empties", func(t *testing.T) {
		tr := settled(t, a)
		if changed, problems := tr.Replace(nil); !changed || problems != nil {
			t.Errorf("Replace = %t, %v, want a change without problems", changed, problems)
		}
		wantPending(t, tr, "a ")
	})
}

// TestConcurrent flips a slice while another goroutine takes the changes as an
// incremental consumer does: what it has in the end must be the last state.
func TestConcurrent(t *testing.T) {
	t.Run("#4 no event is lost between state and names", func(t *testing.T) {
		tr := load(t)
		applied := make(map[types.NamespacedName]string)
		round := func() {
			for n, set := range tr.Take().Sets {
				applied[n] = text(set)
			}
		}
		var flips sync.WaitGroup
		stop := make(chan struct{})
		flips.Go(func() {
			defer close(stop)
			states := []*discoveryv1.EndpointSlice{newSlice("s1", "web", ready("10.0.0.1")...), newSlice("s1", "web", ready("10.0.0.2")...)}
			for i := range 50_001 {
				tr.Set(states[i%2])
			}
		})
		for running := true; running; {
			select {
			case <-stop:
				running = false
			default:
			}
			round()
		}
		flips.Wait()
		if got, want := applied[name("web")], "p/TCP/IPv4: 10.0.0.1:80"; got != want {
			t.Errorf("the consumer has %q, want %q", got, want)
		}
		wantPending(t, tr)
	})
}

// TestBurst delivers many slices in random order and takes changes at random
// points.
func TestBurst(t *testing.T) {
	t.Run("#80 no endpoint is lost in a burst", func(t *testing.T) {
		const services = 500
		r := rand.New(rand.NewPCG(1, 2))
		tr, applied := load(t), make(map[types.NamespacedName]*endpoints.Set)
		take := func() {
			maps.Copy(applied, tr.Take().Sets)
		}
		// Each Service has two slices, of which one comes twice.
		for _, i := range r.Perm(3 * services) {
			n, half := strconv.Itoa(i%services), strconv.Itoa(i/services%2)
			prefix := "10." + half + "." + strconv.Itoa(i%services/250) + "." + strconv.Itoa(i%services%250)
			s := newSlice("s"+n+"-"+half, "svc"+n, ready(prefix)...)
			s.Ports = append(s.Ports, newPort("q", 81))
			tr.Set(s)
			if r.IntN(20) == 0 {
				take()
			}
		}
		take()
		total := 0
		for _, set := range applied {
			for _, eps := range set.All() {
				total += len(eps)
			}
		}
		if len(applied) != services || total != 4*services {
			t.Errorf("%d Services with %d endpoints, want %d with %d", len(applied), total, services, 4*services)
		}
	})
}
