package engine_test

import (
	"context"
	"fmt"
	"iter"
	"net/netip"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends/engine"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// A sink is a data plane that takes everything, so that only the engine costs something: an object for each frontend, endpoint
// and ClusterIP.
type sink struct{}

type sinkID struct {
	addr netip.AddrPort
	slot int
}

func (sink) Compile(_ *plan.Plan, port *plan.Port, _ []engine.Object[sinkID, netip.AddrPort]) ([]engine.Object[sinkID, netip.AddrPort], error) {
	if port == nil {
		return nil, nil
	}
	out := make([]engine.Object[sinkID, netip.AddrPort], 0, 2*len(port.Frontends)+len(port.Cluster))
	for _, f := range port.Frontends {
		at := netip.AddrPortFrom(f.Addr, f.Port)
		out = append(out, engine.Object[sinkID, netip.AddrPort]{ID: sinkID{at, len(port.Cluster)}})
		out = append(out, engine.Object[sinkID, netip.AddrPort]{ID: sinkID{addr: netip.AddrPortFrom(f.Addr, 0)}, Shared: true})
	}
	for i, e := range port.Cluster {
		out = append(out, engine.Object[sinkID, netip.AddrPort]{ID: sinkID{netip.AddrPortFrom(port.Frontends[0].Addr, port.Frontends[0].Port), -i - 1}, Value: e.Addr})
	}
	return out, nil
}

func (sink) Equal(a, b netip.AddrPort) bool { return a == b }

func (sink) List(context.Context) (iter.Seq2[sinkID, netip.AddrPort], error) {
	return func(func(sinkID, netip.AddrPort) bool) {}, nil
}

func (sink) Write(context.Context, []engine.Edit[sinkID, netip.AddrPort]) error { return nil }

// many returns a plan of so many Services with ten endpoints each.
func many(services int) *plan.Plan {
	in := plan.Input{Services: map[types.NamespacedName]*service.Service{}, Endpoints: map[types.NamespacedName]*endpoints.Set{}}
	for i := range services {
		n, s, e := one(i, 10)
		in.Services[n], in.Endpoints[n] = s, e
	}
	p, _ := plan.New(config("192.0.2.1")).Update(in)
	return p
}

func one(i, pods int) (types.NamespacedName, *service.Service, *endpoints.Set) {
	n := types.NamespacedName{Namespace: "ns", Name: fmt.Sprint("web-", i)}
	s := &service.Service{Name: n, Ports: []service.Port{{Protocol: corev1.ProtocolTCP, Port: 80}}}
	s.IPv4.ClusterIP = netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
	var list []endpoints.Endpoint
	for j := range pods {
		list = append(list, endpoints.Endpoint{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{11, byte(i >> 8), byte(i), byte(j)}), 80), Ready: true, Serving: true})
	}
	return n, s, endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{{Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}: list})
}

func BenchmarkFirst(b *testing.B) {
	for _, n := range []int{1000, 50000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := many(n)
			b.ReportAllocs()
			for b.Loop() {
				e := engine.New(sink{}, engine.Options{})
				if err := e.Sync(b.Context(), plan.Full(p)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkOneEndpoint(b *testing.B) {
	for _, n := range []int{1000, 50000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p := many(n)
			var c plan.Cursor
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			e := engine.New(sink{}, engine.Options{})
			if err := e.Sync(b.Context(), c.Delta(p)); err != nil {
				b.Fatal(err)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			c.Done(plan.Full(p), nil)
			b.ReportAllocs()
			pods := 10
			for b.Loop() {
				pods = 19 - pods
				name, _, set := one(n/2, pods)
				next, diff := p.Update(plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{name: set}})
				c.Note(diff)
				d := c.Delta(next)
				err := e.Sync(b.Context(), d)
				if err != nil || e.LastStats().Full {
					b.Fatal(err, "full")
				}
				c.Done(d, err)
				p = next
			}
			b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/float64(n), "heap-B/service")
		})
	}
}
