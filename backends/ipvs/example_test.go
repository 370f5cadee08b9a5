package ipvs_test

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/backends/ipvs/ipvstest"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A node reaches the API servers of its cluster at one address, whichever of them
// are up. One of them is taken out for maintenance.
func ExampleReconciler() {
	ctx := context.Background()
	memory := &ipvstest.Memory{}
	r := ipvs.NewReconciler(memory.Kernel(), 0) // on a node that of ipvs.Open

	api := ipvs.ServerKey{Addr: netip.MustParseAddrPort("10.103.97.2:6443"), Protocol: corev1.ProtocolTCP}
	balance := func(masters ...string) {
		v := ipvs.VirtualServer{ServerKey: api, Scheduler: "rr"}
		for _, m := range masters {
			v.Real = append(v.Real, ipvs.RealServer{Addr: netip.MustParseAddrPort(m), Weight: 1})
		}
		if err := r.Ensure(ctx, v); err != nil {
			fmt.Println(err)
		}
	}
	show := func() {
		v, err := r.Get(api)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, s := range v.Real {
			fmt.Println(s.Addr, "weight", s.Weight, "connections", s.Active)
		}
	}

	balance("192.0.2.11:6443", "192.0.2.12:6443", "192.0.2.13:6443")
	if err := memory.Connect(api, netip.MustParseAddrPort("192.0.2.12:6443"), 1, 0); err != nil {
		fmt.Println(err) // a kubelet watches there
	}
	balance("192.0.2.11:6443", "192.0.2.13:6443")
	show()

	if err := memory.Connect(api, netip.MustParseAddrPort("192.0.2.12:6443"), 0, 0); err != nil {
		fmt.Println(err)
	}
	left, err := r.Sweep(ctx)
	fmt.Println("still draining:", left, err)
	show()
	// Output:
	// 192.0.2.11:6443 weight 1 connections 0
	// 192.0.2.12:6443 weight 0 connections 1
	// 192.0.2.13:6443 weight 1 connections 0
	// still draining: 0 <nil>
	// 192.0.2.11:6443 weight 1 connections 0
	// 192.0.2.13:6443 weight 1 connections 0
}

// The user's own data, here the name of a scheduler from an annotation, chooses how one
// Service is balanced.
func ExampleOptions() {
	opts := ipvs.Options{
		Balance: ipvs.Balance{Scheduler: "mh", HashPort: true},
		PerPort: func(p *plan.Port) ipvs.Balance {
			if scheduler, ok := p.Ext.(string); ok {
				return ipvs.Balance{Scheduler: scheduler}
			}
			return ipvs.Balance{Scheduler: "mh", HashPort: true}
		},
	}
	fmt.Println(opts.PerPort(&plan.Port{Ext: "wlc"}).Scheduler)
	fmt.Println(opts.PerPort(&plan.Port{}).Scheduler)
	// Output:
	// wlc
	// mh
}
