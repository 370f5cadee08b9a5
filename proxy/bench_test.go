package proxy_test

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// cluster returns n Services with 10 endpoints each.
func cluster(n int) ([]*corev1.Service, []*discoveryv1.EndpointSlice) {
	services := make([]*corev1.Service, n)
	slices := make([]*discoveryv1.EndpointSlice, n)
	for i := range n {
		name := fmt.Sprintf("s%05d", i)
		services[i] = svc(name, fmt.Sprintf("10.%d.%d.%d", 96+i/62500, i/250%250, 1+i%250))
		slices[i] = slice(name, podIPs(i, 0)...)
	}
	return services, slices
}

// podIPs returns the 10 endpoints of Service i; another version has another last one.
func podIPs(i, version int) []string {
	var ips []string
	for e := range 9 {
		ips = append(ips, fmt.Sprintf("10.%d.%d.%d", 128+i/6250, i/25%250, 10*(i%25)+1+e))
	}
	return append(ips, fmt.Sprintf("10.250.%d.1", version))
}

func newBenchProxy(b *testing.B, services []*corev1.Service, slices []*discoveryv1.EndpointSlice, set ...func(*proxy.Options)) *proxy.Proxy {
	b.Helper()
	opts := proxy.Options{Backend: &fake.Backend{}, Config: plan.Config{Node: node()}}
	for _, f := range set {
		f(&opts)
	}
	p, err := proxy.New(opts)
	if err != nil {
		b.Fatal(err)
	}
	p.ReplaceServices(services)
	p.ReplaceEndpointSlices(slices)
	if err := p.Step(b.Context()); err != nil {
		b.Fatal(err)
	}
	return p
}

// BenchmarkOneChange is one endpoint of one Service replaced, from SetEndpointSlice to
// the end of the round. The cost must not depend on the number of Services.
func BenchmarkOneChange(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 50_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			services, slices := cluster(n)
			p := newBenchProxy(b, services, slices)
			name := fmt.Sprintf("s%05d", n/2)
			versions := []*discoveryv1.EndpointSlice{slice(name, podIPs(n/2, 1)...), slice(name, podIPs(n/2, 2)...)}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				p.SetEndpointSlice(versions[i%2])
				if err := p.Step(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStart is a relist of everything and the first round.
func BenchmarkStart(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			services, slices := cluster(n)
			b.ReportAllocs()
			for b.Loop() {
				newBenchProxy(b, services, slices)
			}
		})
	}
}

// BenchmarkNoChange is a round with nothing to do.
func BenchmarkNoChange(b *testing.B) {
	services, slices := cluster(10_000)
	p := newBenchProxy(b, services, slices)
	b.ReportAllocs()
	for b.Loop() {
		if err := p.Step(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLargeService is one endpoint of a Service with 5,000 in 50 slices replaced: trackers,
// plan and delta, and a backend that does nothing.
func BenchmarkLargeService(b *testing.B) {
	const perSlice = 100
	part := func(i, version int) *discoveryv1.EndpointSlice {
		var ips []string
		for e := range perSlice - 1 {
			ips = append(ips, fmt.Sprintf("10.%d.%d.%d", 128+i, e/250, 1+e%250))
		}
		s := slice("big", append(ips, fmt.Sprintf("10.%d.9.%d", 128+i, version))...)
		s.Name = fmt.Sprint("big-", i)
		return s
	}
	var slices []*discoveryv1.EndpointSlice
	for i := range 50 {
		slices = append(slices, part(i, 1))
	}
	p := newBenchProxy(b, []*corev1.Service{svc("big", "10.96.0.1")}, slices)
	versions := []*discoveryv1.EndpointSlice{part(7, 2), part(7, 1)}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		p.SetEndpointSlice(versions[i%2])
		if err := p.Step(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLiveHeap loads Services with 10 endpoints each into trackers and a plan. What they
// keep, once the API objects are gone, is live-MB.
func BenchmarkLiveHeap(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 50_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			var kept []any
			before := liveHeap()
			for b.Loop() {
				kept = load(n)
			}
			b.ReportMetric((liveHeap()-before)/1e6, "live-MB")
			runtime.KeepAlive(kept)
		})
	}
}

// load returns trackers and a plan of n Services.
func load(n int) []any {
	services, slices := cluster(n)
	st := service.NewServiceChangeTracker(service.Options{})
	et := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
	for i := range n {
		st.Set(services[i])
		et.Set(slices[i])
	}
	sc, ec := st.Take(), et.Take()
	p, diff := plan.New(plan.Config{Node: node()}).Update(plan.Input{Services: sc.Services, Endpoints: ec.Sets})
	cursor := &plan.Cursor{}
	cursor.Note(diff)
	cursor.Done(cursor.Delta(p), nil)
	return []any{st, et, p, cursor}
}

func liveHeap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

// BenchmarkFullRound is a round that looks at everything, and one that does so in vain, with the one that repairs it.
// What failed must not cost more than a full round: failed is at most twice full.
func BenchmarkFullRound(b *testing.B) {
	for _, failed := range []bool{false, true} {
		b.Run(map[bool]string{false: "full", true: "failed"}[failed], func(b *testing.B) {
			services, slices := cluster(10_000)
			back, flows := &fake.Backend{}, &recorder{}
			p := newBenchProxy(b, services, slices, func(o *proxy.Options) {
				o.Backend, o.Consumers = back, []proxy.Consumer{{Name: "flows", Syncer: flows}}
			})
			b.ReportAllocs()
			for b.Loop() {
				p.Trigger()
				if failed {
					back.FailCall(1, errKernel)
					if err := p.Step(b.Context()); err == nil {
						b.Fatal("the round did not fail")
					}
				}
				if err := p.Step(b.Context()); err != nil {
					b.Fatal(err)
				}
				flows.deltas = nil
			}
		})
	}
}

// BenchmarkFailedStart is a first round that fails, and the next one. [BenchmarkStart] is the same without the failure.
func BenchmarkFailedStart(b *testing.B) {
	services, slices := cluster(10_000)
	b.ReportAllocs()
	for b.Loop() {
		back := &fake.Backend{}
		p, err := proxy.New(proxy.Options{Backend: back, Config: plan.Config{Node: node()}})
		if err != nil {
			b.Fatal(err)
		}
		p.ReplaceServices(services)
		p.ReplaceEndpointSlices(slices)
		back.FailCall(1, errKernel)
		if err := p.Step(b.Context()); err == nil {
			b.Fatal("the round did not fail")
		}
		if err := p.Step(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
