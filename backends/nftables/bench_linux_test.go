package nftables

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

func BenchmarkFirstSync(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 50_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			inNetNS(b)
			p, _ := plan.New(nodeConfig()).Update(many(n))
			b.ReportAllocs()
			m := newMeter(b)
			for b.Loop() {
				backend := newBackend(b, Options{})
				if err := backend.Sync(b.Context(), plan.Full(p)); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				m.stop()
				if err := backend.Cleanup(b.Context()); err != nil {
					b.Fatal(err)
				}
				m.start()
				b.StartTimer()
			}
			m.stop()
			m.report()
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
			m := newMeter(b)
			for b.Loop() {
				s := w.sync(backend, plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{nameOf("svc77"): versions[turn%2]}})
				b.ReportMetric(float64(s.Written), "statements/op")
				turn++
			}
			m.stop()
			m.report()
		})
	}
}

func BenchmarkAdopt(b *testing.B) {
	for _, n := range []int{1_000, 10_000, 50_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			inNetNS(b)
			p, _ := plan.New(nodeConfig()).Update(many(n))
			if err := newBackend(b, Options{}).Sync(b.Context(), plan.Full(p)); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			m := newMeter(b)
			for b.Loop() {
				backend := newBackend(b, Options{})
				if err := backend.Sync(b.Context(), plan.Full(p)); err != nil || backend.LastStats().Written > 0 {
					b.Fatal(err, backend.LastStats())
				}
			}
			m.stop()
			m.report()
		})
	}
}
