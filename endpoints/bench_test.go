package endpoints_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipkit/vipkit/endpoints"
)

// cluster returns the slices of n Services with 10 endpoints each on 1,000 nodes
// in 3 zones. No two strings share memory, as if each slice was decoded.
func cluster(n int) []*discoveryv1.EndpointSlice {
	list := make([]*discoveryv1.EndpointSlice, n)
	for i := range list {
		s := newSlice("svc-"+strconv.Itoa(i)+"-abcde", "svc-"+strconv.Itoa(i))
		s.Namespace = strings.Clone("namespace")
		*s.Ports[0].Name = strings.Clone("http-main")
		for j := range 10 {
			s.Endpoints = append(s.Endpoints, placed(i*10+j))
		}
		list[i] = s
	}
	return list
}

// placed returns the i-th of a million endpoints.
func placed(i int) discoveryv1.Endpoint {
	e := newEndpoint(fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255), "R")
	node := "node-" + strconv.Itoa(i%1000) + ".example.internal"
	e.NodeName = &node
	e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "zone-" + strconv.Itoa(i%3)}}}
	return e
}

func liveHeap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkLoad loads 10,000 Services with 10 endpoints each; live-MB is what
// the tracker keeps.
func BenchmarkLoad(b *testing.B) {
	list := cluster(10_000)
	before := liveHeap()
	var tr *endpoints.EndpointsChangeTracker
	b.ReportAllocs()
	for b.Loop() {
		tr = endpoints.NewEndpointsChangeTracker(endpoints.Options{})
		for _, s := range list {
			tr.Set(s)
		}
		tr.Take()
	}
	b.ReportMetric((liveHeap()-before)/1e6, "live-MB")
	runtime.KeepAlive(tr)
	runtime.KeepAlive(list)
}

// BenchmarkRelist gives all slices again, as an informer does after a reconnect.
func BenchmarkRelist(b *testing.B) {
	list := cluster(10_000)
	tr := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
	tr.Replace(list)
	tr.Take()
	b.ReportAllocs()
	for b.Loop() {
		if changed, _ := tr.Replace(list); changed {
			b.Fatal("a relist changed something")
		}
	}
}

// BenchmarkOneChange flips one endpoint of one Service among n.
func BenchmarkOneChange(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 50_000} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			list := cluster(n)
			tr := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
			tr.Replace(list)
			tr.Take()
			flip(b, tr, list[n/2])
		})
	}
}

// BenchmarkLargeService flips one endpoint of a Service with 5,000 endpoints in
// slices of 100.
func BenchmarkLargeService(b *testing.B) {
	tr := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
	var last *discoveryv1.EndpointSlice
	for i := range 50 {
		last = newSlice("s"+strconv.Itoa(i), "svc")
		for j := range 100 {
			last.Endpoints = append(last.Endpoints, placed(i*100+j))
		}
		tr.Set(last)
	}
	tr.Take()
	flip(b, tr, last)
}

// flip makes the first endpoint of s not ready and ready again, and takes each
// change.
func flip(b *testing.B, tr *endpoints.EndpointsChangeTracker, s *discoveryv1.EndpointSlice) {
	b.Helper()
	b.ReportAllocs()
	for b.Loop() {
		r := s.Endpoints[0].Conditions.Ready
		*r = !*r
		tr.Set(s)
		c := tr.Take()
		if len(c.Sets) != 1 {
			b.Fatalf("%d Services pending, want 1", len(c.Sets))
		}
	}
}
