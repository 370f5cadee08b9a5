package ipvs

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/knftables"

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
type nullTable struct{ *knftables.Fake }

func (nullTable) Run(context.Context, *knftables.Transaction) error { return nil }

func benchBackend(b *testing.B) *Backend {
	b.Helper()
	opts, err := Options{Kernel: &Memory{}}.withDefaults()
	if err != nil {
		b.Fatal(err)
	}
	backend := newBackend(opts, &memoryLinks{})
	backend.nft = nullTable{knftables.NewFake(knftables.InetFamily, defaultName)}
	return backend
}

func BenchmarkFirstSync(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("%d Services", n), func(b *testing.B) {
			p, _ := plan.New(plan.Config{}).Update(many(n))
			b.ReportAllocs()
			var last Stats
			for b.Loop() {
				backend := benchBackend(b)
				if err := backend.Sync(b.Context(), plan.Full(p)); err != nil {
					b.Fatal(err)
				}
				last = backend.LastStats()
			}
			b.ReportMetric(float64(last.Requests), "requests/op")
		})
	}
}

func BenchmarkOneEndpoint(b *testing.B) {
	for _, n := range []int{1000, 5000} {
		b.Run(fmt.Sprintf("%d Services", n), func(b *testing.B) {
			var cursor plan.Cursor
			p, diff := plan.New(plan.Config{}).Update(many(n))
			cursor.Note(diff)
			backend := benchBackend(b)
			sync := func() {
				d := cursor.Delta(p)
				err := backend.Sync(b.Context(), d)
				if err != nil {
					b.Fatal(err)
				}
				cursor.Done(d, nil)
			}
			sync()
			b.ReportAllocs()
			k, requests := 10, 0
			for b.Loop() {
				k = 19 - k
				in := plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{nameOf("s0"): firstOf(0, k)}}
				p, diff = p.Update(in)
				cursor.Note(diff)
				sync()
				requests += backend.LastStats().Requests
			}
			b.ReportMetric(float64(requests)/float64(b.N), "requests/op")
		})
	}
}
