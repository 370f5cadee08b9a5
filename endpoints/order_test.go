package endpoints_test

import (
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/endpoints"
)

// TestCompareIsThatOfTheText compares addresses that have much in common, as those
// whose order is not obvious do.
func TestCompareIsThatOfTheText(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	octets := []byte{0, 1, 2, 9, 10, 11, 19, 20, 25, 99, 100, 101, 109, 199, 200, 255}
	ports := []uint16{0, 1, 8, 9, 80, 81, 99, 443, 800, 808, 8080, 8081, 10000, 65535}
	address := func() netip.AddrPort {
		pick := func() byte { return octets[r.IntN(len(octets))] }
		a := netip.AddrFrom4([4]byte{10, pick(), pick(), pick()})
		if r.IntN(4) == 0 {
			a = netip.AddrFrom16([16]byte{0xfd, 14: pick(), 15: pick()})
		}
		return netip.AddrPortFrom(a, ports[r.IntN(len(ports))])
	}
	for range 20_000 {
		a, b := endpoints.Endpoint{Addr: address()}, endpoints.Endpoint{Addr: address()}
		if r.IntN(2) == 0 { // different ports only
			b.Addr = netip.AddrPortFrom(a.Addr.Addr(), b.Addr.Port())
		}
		want := strings.Compare(a.String(), b.String())
		if got := endpoints.Compare(&a, &b); got != want {
			t.Fatalf("Compare(%v, %v) = %d, want %d", &a, &b, got, want)
		}
	}
}
