package proxy_test

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// Step does one round at a time; the Observer tells what was done.
func Example() {
	p, err := proxy.New(proxy.Options{
		Backend: &fake.Backend{},
		Config:  plan.Config{Node: plan.Node{Name: "n1"}},
		Observer: proxy.Observer{RoundEnded: func(r proxy.Round) {
			res, _ := r.Backend()
			fmt.Printf("%s: full %v, %d changes\n", r.Reason, res.Full, res.Changes)
		}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	p.ReplaceServices([]*corev1.Service{svc("web", "10.96.0.10"), svc("api", "10.96.0.11")})
	fmt.Println(p.Step(ctx)) // the slices have not come
	p.ReplaceEndpointSlices([]*discoveryv1.EndpointSlice{slice("web", "10.200.0.1")})
	_ = p.Step(ctx)
	p.SetEndpointSlice(slice("api", "10.200.0.2"))
	_ = p.Step(ctx)
	// Output:
	// proxy: step: waiting for sources: endpointslices
	// first: full true, 2 changes
	// change: full false, 1 changes
}

// A Consumer gets the same changes as the Backend, after it.
func ExampleConsumer() {
	watch := syncFunc(func(_ context.Context, d *plan.Delta) error {
		for _, c := range d.Changes {
			fmt.Println(c.Key, "removed:", c.After == nil)
		}
		return nil
	})
	p, err := proxy.New(proxy.Options{
		Backend:   &fake.Backend{},
		Consumers: []proxy.Consumer{{Name: "watch", Syncer: watch}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	p.ReplaceServices([]*corev1.Service{svc("web", "10.96.0.10")})
	p.ReplaceEndpointSlices(nil)
	_ = p.Step(context.Background())
	p.DeleteService(name("web"))
	_ = p.Step(context.Background())
	// Output:
	// ns1/web:http removed: false
	// ns1/web:http removed: true
}

type syncFunc func(context.Context, *plan.Delta) error

func (f syncFunc) Sync(ctx context.Context, d *plan.Delta) error { return f(ctx, d) }

func ExampleReadNode() {
	object := nodeObject()
	object.Labels[corev1.LabelTopologyZone] = "z1"
	node, problems := proxy.ReadNode(object)
	fmt.Println(node.Name, node.Zone, node.Addresses, node.PodCIDRs, len(problems))
	// The pod range may come from elsewhere.
	node.PodCIDRs = []netip.Prefix{netip.MustParsePrefix("10.201.7.0/24")}
	// Output:
	// n1 z1 [192.0.2.10 2001:db8:1::10 198.51.100.1] [10.200.0.0/24 fd00:200::/64] 0
}
