package allocator_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"

	"github.com/vipkit/vipkit/allocator"
)

// fill claims used addresses of p at random, for nobody.
func fill(b *testing.B, p *allocator.Pool, used int) {
	b.Helper()
	for range used {
		if _, err := p.Pick(allocator.Owner{}); err != nil {
			b.Fatal(err)
		}
	}
}

// pickAndRelease is the operation that is measured: both together.
func pickAndRelease(b *testing.B, p *allocator.Pool, o allocator.Owner) {
	b.Helper()
	a, err := p.Pick(o)
	if err != nil {
		b.Fatal(err)
	}
	if err := p.Release(a, o); err != nil {
		b.Fatal(err)
	}
}

func BenchmarkPickRelease(b *testing.B) {
	for _, bb := range []struct {
		cidr string
		used int
	}{
		{"10.0.0.0/12", 10_000},
		{"10.0.0.0/12", 65_000},
		{"10.0.0.0/12", 1_000_000},
		{"10.0.0.0/12", 1_048_573}, // one left
		{"10.0.0.0/16", 65_533},    // one left
		{"10.0.0.0/8", 16_777_213}, // one left
		{"fd00::/64", 10_000},
		{"fd00::/64", 1_000_000},
	} {
		b.Run(fmt.Sprintf("cidr=%s/used=%d", bb.cidr, bb.used), func(b *testing.B) {
			p := newPool(b, bb.cidr, allocator.Options{})
			fill(b, p, bb.used)
			b.ReportAllocs()
			for b.Loop() {
				pickAndRelease(b, p, allocator.Owner{})
			}
		})
	}
}

// BenchmarkPickReleaseOwner is BenchmarkPickRelease where addresses have owners.
func BenchmarkPickReleaseOwner(b *testing.B) {
	p := newPool(b, "10.0.0.0/12", allocator.Options{})
	for i := range 65_000 {
		if _, err := p.Pick(owner(fmt.Sprint("svc", i))); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		pickAndRelease(b, p, owner("web"))
	}
}

func BenchmarkPickReleaseParallel(b *testing.B) {
	for _, goroutines := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			p := newPool(b, "10.0.0.0/12", allocator.Options{})
			fill(b, p, 65_000)
			b.ReportAllocs()
			b.SetParallelism(max(1, goroutines/runtime.GOMAXPROCS(0)))
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					pickAndRelease(b, p, allocator.Owner{})
				}
			})
		})
	}
}

// BenchmarkExplicit claims and releases random addresses by name.
func BenchmarkExplicit(b *testing.B) {
	for _, cidr := range []string{"10.0.0.0/12", "fd00::/64"} {
		b.Run("cidr="+cidr, func(b *testing.B) {
			p := newPool(b, cidr, allocator.Options{})
			fill(b, p, 65_000)
			network := prefix(cidr).Addr().As16()
			b.ReportAllocs()
			for b.Loop() {
				host := 1 + rand.Uint64N(1<<20-2)
				bytes := network
				binary.BigEndian.PutUint64(bytes[8:], binary.BigEndian.Uint64(bytes[8:])+host)
				a := netip.AddrFrom16(bytes).Unmap()
				if p.Claim(a, allocator.Owner{}) != nil {
					continue
				}
				if err := p.Release(a, allocator.Owner{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRestore reads a snapshot with a million owners.
func BenchmarkRestore(b *testing.B) {
	p := newPool(b, "10.0.0.0/12", allocator.Options{})
	for i := range 1_000_000 {
		if _, err := p.Pick(owner(fmt.Sprint("svc", i))); err != nil {
			b.Fatal(err)
		}
	}
	data, err := p.MarshalBinary()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(len(data)), "bytes")
	for b.Loop() {
		if err := p.UnmarshalBinary(data); err != nil {
			b.Fatal(err)
		}
	}
}

// heapOf returns how much more heap is in use after build than before.
func heapOf[T any](build func() T) (T, float64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	x := build()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return x, float64(after.HeapAlloc) - float64(before.HeapAlloc)
}

// BenchmarkMemory reports the heap that a pool takes, and per used address.
func BenchmarkMemory(b *testing.B) {
	for _, bb := range []struct {
		cidr   string
		used   int
		owners bool
	}{
		{"10.0.0.0/12", 1_000_000, false},
		{"fd00::/64", 1_000_000, false},
		{"fd00::/64", 100_000, true},
	} {
		b.Run(fmt.Sprintf("cidr=%s/used=%d/owners=%v", bb.cidr, bb.used, bb.owners), func(b *testing.B) {
			var bytes float64
			for b.Loop() {
				var kept *allocator.Pool
				kept, bytes = heapOf(func() *allocator.Pool {
					p := newPool(b, bb.cidr, allocator.Options{})
					for i := range bb.used {
						o := allocator.Owner{}
						if bb.owners {
							o = owner(fmt.Sprint("svc", i))
						}
						if _, err := p.Pick(o); err != nil {
							b.Fatal(err)
						}
					}
					return p
				})
				runtime.KeepAlive(kept)
			}
			b.ReportMetric(bytes/1024, "KiB")
			b.ReportMetric(bytes/float64(bb.used), "bytes/address")
		})
	}
}
