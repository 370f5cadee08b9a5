package endpoints_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/endpoints"
)

func TestEqual(t *testing.T) {
	base := endpoints.Endpoint{
		Addr: addrPort("10.0.0.1:80"), Ready: true, Serving: true, NodeName: "a",
		Hints: &endpoints.Hints{ForZones: []string{"z"}, ForNodes: []string{"a"}}, Weight: 1, Ext: "x",
	}
	changes := map[string]func(e *endpoints.Endpoint){
		"address":     func(e *endpoints.Endpoint) { e.Addr = addrPort("10.0.0.2:80") },
		"port":        func(e *endpoints.Endpoint) { e.Addr = addrPort("10.0.0.1:81") },
		"ready":       func(e *endpoints.Endpoint) { e.Ready = false },
		"serving":     func(e *endpoints.Endpoint) { e.Serving = false },
		"terminating": func(e *endpoints.Endpoint) { e.Terminating = true },
		"node":        func(e *endpoints.Endpoint) { e.NodeName = "A" },
		"zone hints":  func(e *endpoints.Endpoint) { e.Hints = &endpoints.Hints{ForNodes: []string{"a"}} },
		"node hints": func(e *endpoints.Endpoint) {
			e.Hints = &endpoints.Hints{ForZones: []string{"z"}, ForNodes: []string{"b"}}
		},
		"no hints": func(e *endpoints.Endpoint) { e.Hints = nil },
		"weight":   func(e *endpoints.Endpoint) { e.Weight = 0 },
		"ext":      func(e *endpoints.Endpoint) { e.Ext = 1 },
	}
	for test, change := range changes {
		t.Run(test, func(t *testing.T) {
			other := base
			change(&other)
			if endpoints.Equal(&base, &other) || endpoints.Equal(&other, &base) {
				t.Error("another one is equal")
			}
		})
	}
	same := base
	same.Hints = &endpoints.Hints{ForZones: []string{"z"}, ForNodes: []string{"a"}}
	if !endpoints.Equal(&base, &same) || !endpoints.Equal(nil, nil) {
		t.Error("the same is not equal")
	}
	if endpoints.Equal(&base, nil) || endpoints.Equal(nil, &base) {
		t.Error("nil is equal to an endpoint")
	}
}

func TestCompare(t *testing.T) {
	t.Run("B33 by bytes of the text", func(t *testing.T) {
		var eps []*endpoints.Endpoint
		for _, s := range []string{"[fd00::1]:80", "10.0.0.2:80", "10.0.0.10:80", "10.0.0.1:8080", "10.0.0.1:80"} {
			eps = append(eps, &endpoints.Endpoint{Addr: addrPort(s)})
		}
		slices.SortFunc(eps, endpoints.Compare)
		var got []string
		for _, e := range eps {
			got = append(got, e.String())
		}
		want := "10.0.0.10:80 10.0.0.1:80 10.0.0.1:8080 10.0.0.2:80 [fd00::1]:80"
		if strings.Join(got, " ") != want {
			t.Errorf("got  %q\nwant %q", strings.Join(got, " "), want)
		}
	})
	t.Run("nil is first", func(t *testing.T) {
		e := &endpoints.Endpoint{}
		if endpoints.Compare(nil, e) >= 0 || endpoints.Compare(e, nil) <= 0 || endpoints.Compare(nil, nil) != 0 {
			t.Error("nil does not come before all others")
		}
	})
}

func TestKeyCompare(t *testing.T) {
	sorted := []endpoints.Key{
		{Port: "", Protocol: corev1.ProtocolUDP, Family: corev1.IPv6Protocol},
		{Port: "a", Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol},
		{Port: "a", Protocol: corev1.ProtocolTCP, Family: corev1.IPv6Protocol},
		{Port: "a", Protocol: corev1.ProtocolUDP, Family: corev1.IPv4Protocol},
		{Port: "b", Protocol: corev1.ProtocolSCTP, Family: corev1.IPv4Protocol},
	}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := a.Compare(b); (got < 0) != (i < j) || (got == 0) != (i == j) {
				t.Errorf("%v compared to %v is %d", a, b, got)
			}
		}
	}
}

func TestSetEqual(t *testing.T) {
	set := func(key endpoints.Key, eps ...endpoints.Endpoint) *endpoints.Set {
		return endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{key: eps})
	}
	a, b := endpoints.Endpoint{Addr: addrPort("10.0.0.1:80")}, endpoints.Endpoint{Addr: addrPort("10.0.0.2:80")}
	base, other := set(keyP(), a, b), keyP()
	other.Port = "q"
	if !base.Equal(set(keyP(), b, a)) {
		t.Error("the same endpoints are not equal")
	}
	for i, s := range []*endpoints.Set{nil, set(keyP(), a), set(other, a, b), set(keyP(), a, a)} {
		if base.Equal(s) || s.Equal(base) {
			t.Errorf("set %d is equal, want unequal", i)
		}
	}
}

func TestAllStops(t *testing.T) {
	q := keyP()
	q.Port = "q"
	a := endpoints.Endpoint{Addr: addrPort("10.0.0.1:80")}
	n := 0
	for range endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{keyP(): {a}, q: {a}}).All() {
		n++
		break
	}
	if n != 1 {
		t.Errorf("%d keys, want to stop after one", n)
	}
}
