package ipvs_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/backends/ipvs/ipvstest"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// many returns n ClusterIP Services with ten endpoints each.
func many(n int) plan.Input {
	in := plan.Input{
		Services:  make(map[types.NamespacedName]*service.Service, n),
		Endpoints: make(map[types.NamespacedName]*endpoints.Set, n),
	}
	for i := range n {
		svc := &service.Service{Name: nameOf(fmt.Sprint("s", i)), Ports: []service.Port{{Protocol: corev1.ProtocolTCP, Port: 80}}}
		svc.IPv4.ClusterIP = netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})
		in.Services[svc.Name], in.Endpoints[svc.Name] = svc, firstOf(i, 10)
	}
	return in
}

// firstOf returns the first k of the endpoints of Service i.
func firstOf(i, k int) *endpoints.Set {
	list := make([]endpoints.Endpoint, k)
	for j := range list {
		n := i*10 + j
		at := netip.AddrFrom4([4]byte{10, 128 + byte(n>>16), byte(n >> 8), byte(n)})
		list[j] = endpoints.Endpoint{Addr: netip.AddrPortFrom(at, 8080), Ready: true, Serving: true, NodeName: "n2", Weight: 1}
	}
	return endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{{Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}: list})
}

// A nullTable takes every transaction: the fake would look through all elements for each.
type nullTable struct{ *ipvs.FakeTable }

func (nullTable) Run(context.Context, *knftables.Transaction) error { return nil }

// benchParts are what a Backend works with.
func benchParts() map[string]func(b *testing.B) (ipvs.KernelMethods, ipvs.Links, ipvs.Table) {
	return map[string]func(b *testing.B) (ipvs.KernelMethods, ipvs.Links, ipvs.Table){
		"memory": func(*testing.B) (ipvs.KernelMethods, ipvs.Links, ipvs.Table) {
			return ipvs.Behind((&ipvstest.Memory{}).Kernel()), &ipvs.MemoryLinks{}, nullTable{ipvs.NewFakeTable()}
		},
		"kernel": func(b *testing.B) (ipvs.KernelMethods, ipvs.Links, ipvs.Table) { b.Helper(); return newKernelParts(b) },
	}
}

// eachBench runs a benchmark with several numbers of Services.
func eachBench(b *testing.B, run func(b *testing.B, services int, backend *ipvs.Backend)) {
	b.Helper()
	for in, parts := range benchParts() {
		for _, n := range []int{1000, 5000} {
			b.Run(fmt.Sprintf("%s, %d Services", in, n), func(b *testing.B) {
				k, l, nft := parts(b)
				backend, err := ipvs.NewOn(ipvs.Options{}, k, l, nft)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				run(b, n, backend)
			})
		}
	}
}

// report tells what the last Sync wrote.
func report(b *testing.B, s backends.Stats) {
	b.Helper()
	b.ReportMetric(float64(s.Written), "written")
	b.ReportMetric(float64(s.Commits), "commits")
}

func BenchmarkFirstSync(b *testing.B) {
	eachBench(b, func(b *testing.B, n int, backend *ipvs.Backend) {
		b.Helper()
		p, _ := plan.New(plan.Config{}).Update(many(n))
		var last backends.Stats
		for b.Loop() {
			if err := backend.Sync(b.Context(), plan.Full(p)); err != nil {
				b.Fatal(err)
			}
			last = backend.LastStats()
			b.StopTimer()
			if err := backend.Cleanup(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
		report(b, last)
	})
}

func BenchmarkOneEndpoint(b *testing.B) {
	eachBench(b, func(b *testing.B, n int, backend *ipvs.Backend) {
		b.Helper()
		var cursor plan.Cursor
		p, diff := plan.New(plan.Config{}).Update(many(n))
		cursor.Note(diff)
		sync := func() {
			d := cursor.Delta(p)
			err := backend.Sync(b.Context(), d)
			if err != nil {
				b.Fatal(err)
			}
			cursor.Done(d, nil)
		}
		sync()
		k := 10
		for b.Loop() { // one less, one more
			k = 19 - k
			in := plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{nameOf("s0"): firstOf(0, k)}}
			p, diff = p.Update(in)
			cursor.Note(diff)
			sync()
		}
		report(b, backend.LastStats())
	})
}
