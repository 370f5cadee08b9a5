package servicecidrs

import (
	"fmt"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/klog/v2/ktesting"

	"github.com/vipkit/vipkit/allocator"
	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// TestVipkitRandom asks which ServiceCIDRs may go, in random clusters.
func TestVipkitRandom(t *testing.T) {
	t.Cleanup(shadow.Random())
	g := shadow.NewGenerator(shadow.Options{})
	for range shadow.Rounds(4000) {
		_, ctx := ktesting.NewTestContext(t)
		m := allocator.NewMultiCIDR(allocator.NewMemoryStore(nil), allocator.Options{})
		cidrs, ips := vipkitCIDRs(g), vipkitIPs(g)
		for _, c := range cidrs {
			m.SetServiceCIDR(c)
		}
		for _, ip := range ips {
			rec, err := allocator.NewRecord(ip)
			if err != nil {
				t.Fatal(err)
			}
			m.Observe(rec)
		}
		_, c := newController(ctx, t, cidrs, ips)
		for _, cidr := range cidrs {
			theirs, err := c.canDeleteCIDR(ctx, cidr)
			if err != nil {
				t.Fatal(err)
			}
			if ours := m.CanDelete(cidr.Name); ours != theirs {
				shadow.Differ("service-cidrs", shadow.Unexplained, "delete %s: upstream %v, vipkit %v", cidr.Name, theirs, ours)
				continue
			}
			shadow.Agree("service-cidrs")
		}
	}
}

func vipkitCIDRs(g *shadow.Generator) []*networkingv1.ServiceCIDR {
	var out []*networkingv1.ServiceCIDR
	for i := range 1 + g.Intn(4) {
		v4 := shadow.Pick(g, "10.0.0.0/24", "10.0.0.0/25", "10.0.0.128/25", "10.0.0.64/26", "10.0.0.0/23", "10.0.1.0/24", "10.0.0.0/28")
		v6 := shadow.Pick(g, "fd00::/64", "fd00::/112", "fd00::100/120", "fd01::/64")
		name := fmt.Sprint("c", i)
		out = append(out, shadow.Pick(g, makeServiceCIDR(name, v4, ""), makeServiceCIDR(name, v4, v6), makeServiceCIDR(name, v6, "")))
	}
	return out
}

func vipkitIPs(g *shadow.Generator) []*networkingv1.IPAddress {
	var out []*networkingv1.IPAddress
	for range g.Intn(4) {
		v4 := fmt.Sprintf("10.0.%d.%d", g.Intn(2), shadow.Pick(g, 0, 1, 15, 16, 63, 64, 127, 128, 200, 254, 255))
		v6 := "fd00::" + shadow.Pick(g, "", "1", "100", "101", "1ff", "ffff", "fffe")
		out = append(out, makeIPAddress(shadow.Pick(g, v4, v4, v6)))
	}
	return out
}
