package ipallocator

import (
	"net"
	"net/netip"
	"testing"

	netutils "k8s.io/utils/net"

	"github.com/vipkit/vipkit/allocator"
	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// TestVipkitRandom makes random claims, picks and releases in bitmaps of both.
func TestVipkitRandom(t *testing.T) {
	t.Cleanup(shadow.Random())
	g := shadow.NewGenerator(shadow.Options{})
	for _, text := range []string{
		"10.0.0.0/24", "10.0.0.0/25", "10.0.0.16/28", "10.0.0.8/29", "10.0.0.4/30", "10.1.0.0/16", "10.1.16.0/20", "10.1.2.0/27",
		"fd00::/112", "fd00::/120", "fd00::/124", "fd00::/126", "fd00::/108", "fd00::/64",
	} {
		for range shadow.Rounds(5) {
			vipkitPools(t, g, netip.MustParsePrefix(text))
		}
	}
}

func vipkitPools(t *testing.T, g *shadow.Generator, prefix netip.Prefix) {
	_, cidr, err := netutils.ParseCIDRSloppy(prefix.String())
	if err != nil {
		t.Fatal(err)
	}
	upstream, err := NewInMemory(cidr)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := allocator.NewBitmapPool(prefix, allocator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	owner := allocator.Owner{Namespace: "n", Name: "s"}
	ip := func(n int) net.IP { return netutils.AddIPOffset(upstream.base, n) }
	addr := func(n int) netip.Addr {
		a, _ := netip.AddrFromSlice(ip(n))
		if prefix.Addr().Is4() {
			return a.Unmap()
		}
		return a
	}
	offset := calculateRangeOffset(cidr)
	p := shadow.Pools{
		Area: "allocators", Name: prefix.String(),
		IsStatic: func(n int) bool { return n < offset },
		Upstream: shadow.Pool{
			Claim: func(n int) error { return upstream.Allocate(ip(n)) },
			Pick: func() (int, error) {
				got, err := upstream.AllocateNext()
				if err != nil {
					return 0, err
				}
				return vipkitOffset(upstream, got), nil
			},
			Release: func(n int) error { return upstream.Release(ip(n)) },
			Has:     func(n int) bool { return upstream.Has(ip(n)) },
			Free:    upstream.Free,
		},
		Vipkit: shadow.Pool{
			Claim: func(n int) error { return pool.Claim(addr(n), owner) },
			Pick: func() (int, error) {
				got, err := pool.Pick(owner)
				if err != nil {
					return 0, err
				}
				return vipkitOffset(upstream, got.AsSlice()), nil
			},
			Release: func(n int) error { return pool.Release(addr(n), owner) },
			Has:     func(n int) bool { return pool.Has(addr(n)) },
			Free:    func() int { return int(pool.Stats().Free) },
		},
	}
	for range min(upstream.max*3, 2000) + 20 {
		p.Step(g, g.Intn(min(upstream.max+8, 4000))-3)
	}
	ours, err := pool.Allocation()
	if err != nil {
		t.Fatal(err)
	}
	spec, data := upstream.alloc.(interface{ Snapshot() (string, []byte) }).Snapshot()
	p.Compare("bitmap", spec+string(data), ours.Range+string(ours.Data))
}

func vipkitOffset(r *Range, ip net.IP) int {
	_, offset := r.contains(ip)
	return offset
}
