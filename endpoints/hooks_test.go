package endpoints_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipkit/vipkit/endpoints"
)

func TestProxyName(t *testing.T) {
	own := func(value string) *discoveryv1.EndpointSlice {
		s := newSlice("s1", "svc", ready("10.0.0.1")...)
		s.Labels["service.kubernetes.io/service-proxy-name"] = value
		return s
	}
	t.Run("#31 with a name of its own only equal values match", func(t *testing.T) {
		tr := endpoints.NewEndpointsChangeTracker(endpoints.Options{ProxyName: "mine"})
		for _, s := range []*discoveryv1.EndpointSlice{newSlice("s1", "svc", ready("10.0.0.1")...), own("other"), own("")} {
			if changed, _ := tr.Set(s); changed {
				t.Errorf("labels %v are taken", s.Labels)
			}
		}
		tr.Set(own("mine"))
		wantPending(t, tr, "svc p/TCP/IPv4: 10.0.0.1:80")
		tr.Set(own("other"))
		wantPending(t, tr, "svc ")
	})
	t.Run("headless slices are never taken", func(t *testing.T) {
		tr := endpoints.NewEndpointsChangeTracker(endpoints.Options{ProxyName: "mine"})
		s := own("mine")
		s.Labels["service.kubernetes.io/headless"] = ""
		tr.Set(s)
		wantPending(t, tr)
	})
}

func TestFilter(t *testing.T) {
	tr := endpoints.NewEndpointsChangeTracker(endpoints.Options{
		Filter: func(s *discoveryv1.EndpointSlice) bool { return s.Annotations["hide"] == "" },
	})
	s := newSlice("s1", "svc", ready("10.0.0.1", "x")...)
	shown := s.DeepCopy()
	s.Annotations = map[string]string{"hide": "yes"}
	if changed, errs := tr.Set(s); changed || len(errs) > 0 {
		t.Errorf("a hidden slice: change %t, problems %v, want none", changed, errs)
	}
	if changed, errs := tr.Set(shown); !changed || len(errs) != 1 {
		t.Errorf("a shown slice: change %t, problems %v, want a change and one problem", changed, errs)
	}
	wantPending(t, tr, "svc p/TCP/IPv4: 10.0.0.1:80")
	tr.Set(s)
	wantPending(t, tr, "svc ")
}

func TestExpand(t *testing.T) {
	type mark struct{ value any }
	with := func(change func(e *endpoints.Endpoint)) func(endpoints.Endpoint) []endpoints.Endpoint {
		return func(e endpoints.Endpoint) []endpoints.Endpoint {
			change(&e)
			return []endpoints.Endpoint{e}
		}
	}
	to := func(addr string) func(endpoints.Endpoint) []endpoints.Endpoint {
		return with(func(e *endpoints.Endpoint) { e.Addr = addrPort(addr) })
	}
	tests := []struct {
		name     string
		hook     func(base endpoints.Endpoint) []endpoints.Endpoint
		want     string
		problems []string
	}{
		{"none hides", func(endpoints.Endpoint) []endpoints.Endpoint { return nil }, "", nil},
		{"two", func(e endpoints.Endpoint) []endpoints.Endpoint {
			o := e
			o.Addr = netip.AddrPortFrom(e.Addr.Addr(), 8080)
			return []endpoints.Endpoint{o, e}
		}, "p/TCP/IPv4: 10.0.0.1:80 10.0.0.1:8080", nil},
		{"another address", to("192.0.2.1:8080"), "p/TCP/IPv4: 192.0.2.1:8080", nil},
		{"a mapped address", to("[::ffff:192.0.2.1]:80"), "p/TCP/IPv4: 192.0.2.1:80", nil},
		{"other family", to("[fd00::1]:80"), "", []string{"endpoints[0]"}},
		{"no address", with(func(e *endpoints.Endpoint) { e.Addr = netip.AddrPort{} }), "", []string{"endpoints[0]"}},
		{"no port", to("192.0.2.1:0"), "", []string{"endpoints[0]"}},
		{"an Ext that cannot be compared", with(func(e *endpoints.Endpoint) { e.Ext = []int{1} }), "p/TCP/IPv4: 10.0.0.1:80", []string{"endpoints[0]"}},
		{"an Ext that hides such a value", with(func(e *endpoints.Endpoint) { e.Ext = mark{[]int{1}} }), "p/TCP/IPv4: 10.0.0.1:80", []string{"endpoints[0]"}},
		{"an Ext that can be compared", with(func(e *endpoints.Endpoint) { e.Ext = mark{1} }), "p/TCP/IPv4: 10.0.0.1:80", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := endpoints.NewEndpointsChangeTracker(endpoints.Options{
				Expand: func(_ *discoveryv1.EndpointSlice, _ int, _ endpoints.Key, base endpoints.Endpoint) []endpoints.Endpoint {
					return tt.hook(base)
				},
			})
			_, errs := tr.Set(newSlice("s1", "svc", ready("10.0.0.1")...))
			if got := fields(errs); !slices.Equal(got, tt.problems) {
				t.Errorf("problems at %q, want %q", got, tt.problems)
			}
			if got := text(tr.Pending().Sets[name("svc")]); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if changed, _ := tr.Set(newSlice("s1", "svc", ready("10.0.0.1")...)); changed {
				t.Error("the same slice again is a change")
			}
		})
	}
}

func TestExpandSeesAndChanges(t *testing.T) {
	var calls []string
	own := []string{"b", "a", "b"}
	weight := uint16(5)
	tr := endpoints.NewEndpointsChangeTracker(endpoints.Options{
		Expand: func(s *discoveryv1.EndpointSlice, index int, _ endpoints.Key, base endpoints.Endpoint) []endpoints.Endpoint {
			calls = append(calls, s.Endpoints[index].Addresses[0]+" "+base.String())
			base.Weight, base.Hints, base.Ext = weight, &endpoints.Hints{ForZones: own}, s.Name
			return []endpoints.Endpoint{base}
		},
	})
	s := newSlice("s1", "svc", newEndpoint("x", "R"), newEndpoint("10.0.0.1", "R"))
	s.Ports = append(s.Ports, newPort("q", 81))
	tr.Set(s)
	if got, want := strings.Join(calls, ", "), "10.0.0.1 10.0.0.1:80, 10.0.0.1 10.0.0.1:81"; got != want {
		t.Errorf("the hook was called for %q, want %q", got, want)
	}
	e := tr.Pending().Sets[name("svc")].Get(keyP())[0]
	own[0] = "changed later"
	if e.Weight != 5 || e.Ext != "s1" || !slices.Equal(e.Hints.Zones(), []string{"a", "b"}) {
		t.Errorf("weight %d, ext %v, zone hints %q, want 5, s1 and a, b", e.Weight, e.Ext, e.Hints.Zones())
	}
	own[0], weight = "b", 6
	if changed, _ := tr.Set(s); !changed {
		t.Error("another weight is no change")
	}
	if got := tr.Pending().Sets[name("svc")].Get(keyP())[0]; got.Weight != 6 || e.Weight != 5 {
		t.Errorf("weight %d, and %d in the old Set, want 6 and 5", got.Weight, e.Weight)
	}
}

func TestExpandDropsZone(t *testing.T) {
	tr := endpoints.NewEndpointsChangeTracker(endpoints.Options{
		Expand: func(_ *discoveryv1.EndpointSlice, _ int, _ endpoints.Key, base endpoints.Endpoint) []endpoints.Endpoint {
			base.Addr = addrPort("[fe80::1%eth0]:80")
			return []endpoints.Endpoint{base}
		},
	})
	s := newSlice("s1", "svc", ready("fd00::1")...)
	s.AddressType = discoveryv1.AddressTypeIPv6
	tr.Set(s)
	wantPending(t, tr, "svc p/TCP/IPv6: [fe80::1]:80")
}
