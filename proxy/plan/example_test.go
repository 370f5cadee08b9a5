package plan_test

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// examplePlan has one Service with external policy Local and an endpoint on
// another node, seen from node a.
func examplePlan() *plan.Plan {
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	svc := &service.Service{
		Name: web, ExternalLocal: true,
		Ports: []service.Port{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		IPv4: service.Addresses{
			ClusterIP:       netip.MustParseAddr("10.96.0.10"),
			LoadBalancerIPs: []netip.Addr{netip.MustParseAddr("192.0.2.80")},
		},
	}
	set := endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{
		{Port: "http", Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}: {
			{Addr: netip.MustParseAddrPort("10.244.2.5:8080"), Ready: true, Serving: true, NodeName: "b"},
		},
	})
	p, _ := plan.New(plan.Config{Node: plan.Node{
		Name:      "a",
		Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.1")},
		PodCIDRs:  []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")},
	}}).Update(plan.Input{
		Services:  map[types.NamespacedName]*service.Service{web: svc},
		Endpoints: map[types.NamespacedName]*endpoints.Set{web: set},
	})
	return p
}

func Example() {
	for port := range examplePlan().All() {
		fmt.Print(port)
	}
	// Output:
	// default/web:http tcp v4
	//   10.96.0.10:80        ClusterIP      pod=cluster      node=cluster+masq outside=cluster+masq
	//   192.0.2.80:80        LoadBalancerIP pod=cluster      node=cluster+masq outside=drop
	//   cluster: 10.244.2.5:8080
}

func ExamplePlan_Trace() {
	p := examplePlan()
	for _, source := range []string{"10.244.1.9", "203.0.113.7"} {
		t := p.Trace(plan.Packet{
			Source:      netip.MustParseAddr(source),
			Destination: netip.MustParseAddrPort("192.0.2.80:80"),
			Protocol:    corev1.ProtocolTCP,
		})
		fmt.Println(t.Origin, t.Verdict, t.Endpoints)
		fmt.Println(" ", t.Reason)
	}
	// Output:
	// pod forward [10.244.2.5:8080]
	//   externalTrafficPolicy is Local, which does not bind clients on the node: endpoints of the whole cluster
	// outside drop []
	//   externalTrafficPolicy is Local and node a has no endpoint of default/web:http
}

// A consumer that fails is told again, with all that may be in place.
func ExampleCursor() {
	var c plan.Cursor
	p := examplePlan()
	c.Done(c.Delta(p), nil)

	web := types.NamespacedName{Namespace: "default", Name: "web"}
	p, diff := p.Update(plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{web: nil}})
	c.Note(diff)
	d := c.Delta(p)
	fmt.Println(d.Full, len(d.Changes), len(d.Changes[0].Before))

	c.Done(d, fmt.Errorf("the kernel said no"))
	d = c.Delta(p)
	fmt.Println(d.Full, len(d.Changes), len(d.Changes[0].Before))

	c.Done(d, nil)
	fmt.Println(c.Delta(p))
	// Output:
	// false 1 1
	// true 1 2
	// <nil>
}
