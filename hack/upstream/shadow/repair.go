package shadow

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"

	"github.com/vipkit/vipkit/allocator"
)

// areaRepair is the area of the repair of IPAddresses.
const areaRepair = "repair"

// A Repair is what the repair of addresses finds.
type Repair struct {
	Services  []*corev1.Service
	Addresses []*networkingv1.IPAddress
	Ranges    []*networkingv1.ServiceCIDR
	Now       time.Time
}

// Repaired is what upstream did: the reasons of its events, and writes as in "create 10.0.0.1".
type Repaired struct{ Reasons, Writes []string }

// CompareRepair lets vipkit look at the same, and compares the reasons and what is written.
func CompareRepair(r Repair, upstream Repaired) {
	repair := allocator.AddressRepair{Services: r.Services, Now: r.Now}
	for _, cidr := range r.Ranges {
		for _, text := range cidr.Spec.CIDRs {
			if p, err := netip.ParsePrefix(text); err == nil {
				repair.Ranges = append(repair.Ranges, p.Masked())
			}
		}
	}
	for _, obj := range r.Addresses {
		rec, err := allocator.NewRecord(obj)
		if err != nil {
			Differ(areaRepair, Unexplained, "%s: %v", obj.Name, err)
			return
		}
		repair.Records = append(repair.Records, rec)
	}
	var ours Repaired
	for _, f := range repair.Findings() {
		ours.add(f)
	}
	if a, b := upstream.String(), ours.String(); a != b {
		Differ(areaRepair, Unexplained, "upstream %s, vipkit %s", a, b)
		return
	}
	Agree(areaRepair)
}

func (r *Repaired) add(f allocator.Finding[netip.Addr]) {
	if f.Reason != "" && f.Remedy != allocator.Wait {
		r.Reasons = append(r.Reasons, f.Reason)
	}
	if f.Remedy == allocator.Delete || f.Remedy == allocator.Replace {
		r.Writes = append(r.Writes, fmt.Sprint("delete ", f.Value))
	}
	if f.Remedy == allocator.Create || f.Remedy == allocator.Replace {
		r.Writes = append(r.Writes, fmt.Sprint("create ", f.Value))
	}
}

// String returns all in a fixed order.
func (r Repaired) String() string {
	sorted := func(l []string) string { return join(slices.Sorted(slices.Values(l))) }
	return fmt.Sprintf("writes %q for %q", sorted(r.Writes), sorted(r.Reasons))
}
