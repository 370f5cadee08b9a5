package nftables

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

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
		name := nameOf(fmt.Sprintf("svc%d", i))
		svc := &service.Service{Name: name, Ports: []service.Port{{Name: "p80", Protocol: corev1.ProtocolTCP, Port: 80}}}
		svc.IPv4.ClusterIP = netip.AddrFrom4([4]byte{10, 96 + byte(i>>16), byte(i >> 8), byte(i)})
		in.Services[name], in.Endpoints[name] = svc, tenOf(i, 10, "n2")
	}
	return in
}

// tenOf returns the first k of the ten endpoints of Service i.
func tenOf(i, k int, node string) *endpoints.Set {
	eps := make([]endpoints.Endpoint, k)
	for j := range eps {
		n := i*10 + j
		at := netip.AddrFrom4([4]byte{10, 128 + byte(n>>16), byte(n >> 8), byte(n)})
		eps[j] = endpoints.Endpoint{Addr: netip.AddrPortFrom(at, 8080), Ready: true, Serving: true, NodeName: node, Weight: 1}
	}
	k4 := endpoints.Key{Port: "p80", Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}
	return endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{k4: eps})
}

func BenchmarkFirstSync(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 50_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			inNetNS(b)
			p, _ := plan.New(nodeConfig()).Update(many(n))
			b.ReportAllocs()
			for b.Loop() {
				backend := newBackend(b, Options{})
				if err := backend.Sync(b.Context(), plan.Full(p)); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				if err := backend.Cleanup(b.Context()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
		})
	}
}

func BenchmarkOneEndpoint(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 50_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			inNetNS(b)
			w, backend := newWorld(b, nodeConfig()), newBackend(b, Options{})
			w.sync(backend, many(n))
			versions := []*endpoints.Set{tenOf(77, 9, "n2"), tenOf(77, 10, "n2")}
			turn := 0
			b.ReportAllocs()
			for b.Loop() {
				s := w.sync(backend, plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{nameOf("svc77"): versions[turn%2]}})
				b.ReportMetric(float64(s.Statements), "statements/op")
				turn++
			}
		})
	}
}

func BenchmarkAdopt(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			inNetNS(b)
			p, _ := plan.New(nodeConfig()).Update(many(n))
			if err := newBackend(b, Options{}).Sync(b.Context(), plan.Full(p)); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				backend := newBackend(b, Options{})
				if err := backend.Sync(b.Context(), plan.Full(p)); err != nil || backend.LastStats().Statements > 0 {
					b.Fatal(err, backend.LastStats())
				}
			}
		})
	}
}
