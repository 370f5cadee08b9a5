package vipkit_test

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A Service and its endpoints go in, and the data plane answers a packet. The fake
// backend stands for a kernel; everything else is what an agent does.
func Example() {
	backend := &fake.Backend{}
	p, err := proxy.New(proxy.Options{Backend: backend})
	if err != nil {
		fmt.Println(err)
		return
	}
	node, _ := proxy.ReadNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	p.SetNode(node)
	p.ReplaceServices([]*corev1.Service{web()})
	p.ReplaceEndpointSlices([]*discoveryv1.EndpointSlice{webEndpoints()})
	if err := p.Step(context.Background()); err != nil { // an agent calls Run
		fmt.Println(err)
		return
	}
	trace := backend.Trace(plan.Packet{
		Source:      netip.MustParseAddr("10.244.1.5"),
		Destination: netip.MustParseAddrPort("10.96.0.10:80"),
		Protocol:    corev1.ProtocolTCP,
	})
	fmt.Println(trace.Verdict == plan.Forward, trace.Endpoints)
	// Output:
	// true [10.244.1.7:8080 10.244.2.7:8080]
}

func web() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.10",
			Ports:     []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
}

func webEndpoints() *discoveryv1.EndpointSlice {
	name, port, protocol := "", int32(8080), corev1.ProtocolTCP
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-abc12",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.244.1.7"}}, {Addresses: []string{"10.244.2.7"}},
		},
	}
}
