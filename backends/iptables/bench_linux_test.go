package iptables

import (
	"fmt"
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
)

func benchmarkSizes(b *testing.B, f func(b *testing.B, v Variant, services int)) {
	b.Helper()
	for _, v := range []Variant{NFT, Legacy} {
		for _, n := range []int{1000, 5000} {
			b.Run(fmt.Sprintf("%s/services=%d", v, n), func(b *testing.B) { f(b, v, n) })
		}
	}
}

// BenchmarkFirstSync writes Services with ten endpoints each into an empty namespace.
func BenchmarkFirstSync(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, v Variant, services int) {
		b.Helper()
		backend := inNamespace(b, v, Options{})
		p := planOf(node(), many(services, 10))
		b.ReportAllocs()
		for b.Loop() {
			if err := again(b, backend).Sync(b.Context(), plan.Full(p)); err != nil {
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

func BenchmarkOneEndpoint(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, v Variant, services int) {
		b.Helper()
		backend := inNamespace(b, v, Options{})
		s := newStory(b, node())
		s.sync(backend, many(services, 10))
		versions := []app{
			{name: "svc77", vip: manyVIP(77).String(), eps: "10.200.2.1:8080@n2 10.200.2.2:8080@n2"},
			{name: "svc77", vip: manyVIP(77).String(), eps: "10.200.2.1:8080@n2 10.200.2.3:8080@n2"},
		}
		turn := 0
		b.ReportAllocs()
		for b.Loop() {
			stats := s.sync(backend, with(versions[turn%2]))
			b.ReportMetric(float64(stats.Written), "lines/op")
			turn++
		}
	})
}

func BenchmarkRestart(b *testing.B) {
	benchmarkSizes(b, func(b *testing.B, v Variant, services int) {
		b.Helper()
		backend := inNamespace(b, v, Options{})
		s := newStory(b, node())
		s.sync(backend, many(services, 10))
		b.ReportAllocs()
		for b.Loop() {
			if stats := s.restart(again(b, backend)); stats.Written > 0 {
				b.Fatal(stats)
			}
		}
	})
}

func BenchmarkRender(b *testing.B) {
	p := planOf(node(), many(5000, 10))
	b.ReportAllocs()
	for b.Loop() {
		render(b, p, Options{})
	}
}
