package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

// BenchmarkBind binds addresses in a namespace of its own. The time for each does not grow with their number, where
// addresses of one interface would be a list in the kernel.
func BenchmarkBind(b *testing.B) {
	for _, n := range []int{1000, 5000, 20000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				ns, err := netlab.NewNamespace()
				if errors.Is(err, errors.ErrUnsupported) {
					b.Skip(err)
				}
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				err = ns.Do(func() error { return bindMany(n) })
				b.StopTimer()
				if err = errors.Join(err, ns.Close()); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "us/address")
		})
	}
}

func bindMany(n int) error {
	l := newLinks(DefaultName)
	for i := range n {
		a := netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})
		if err := l.bind(a, netip.Addr{}); err != nil {
			return err
		}
	}
	return nil
}
