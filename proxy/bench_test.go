package proxy_test

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
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

func newBenchProxy(b *testing.B, services []*corev1.Service, slices []*discoveryv1.EndpointSlice) *proxy.Proxy {
	b.Helper()
	p, err := proxy.New(proxy.Options{Backend: &fake.Backend{}, Config: plan.Config{Node: node()}})
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
