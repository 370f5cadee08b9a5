package endpoints_test

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/vipkit/vipkit/endpoints"
)

func Example() {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-x7k2p",
			Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr.To("http"), Port: ptr.To[int32](8080)}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.244.1.5"}, NodeName: ptr.To("a")},
			{Addresses: []string{"10.244.2.5"}, NodeName: ptr.To("b")},
			{Addresses: []string{"10.244.3.500"}},
		},
	}
	tracker := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
	changed, problems := tracker.Set(slice)
	fmt.Println("changed:", changed)
	fmt.Println("problem:", problems.ToAggregate())

	changes := tracker.Take()
	for name, set := range changes.Sets {
		for key, eps := range set.All() {
			fmt.Println(name, key.Port, key.Protocol, key.Family, eps)
		}
	}
	fmt.Println("pending:", len(tracker.Pending().Sets))
	// Output:
	// changed: true
	// problem: endpoints[2].addresses[0]: Invalid value: "10.244.3.500": must be an IP address
	// default/web http TCP IPv4 [10.244.1.5:8080 10.244.2.5:8080]
	// pending: 0
}

// A hook reads a weight from the slice and gives it to all endpoints.
func ExampleOptions() {
	tracker := endpoints.NewEndpointsChangeTracker(endpoints.Options{
		Expand: func(slice *discoveryv1.EndpointSlice, _ int, _ endpoints.Key, base endpoints.Endpoint) []endpoints.Endpoint {
			if slice.Annotations["example.com/drain"] == "true" {
				base.Weight = 0
			}
			return []endpoints.Endpoint{base}
		},
	})
	tracker.Set(&discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web-x7k2p",
			Labels:      map[string]string{discoveryv1.LabelServiceName: "web"},
			Annotations: map[string]string{"example.com/drain": "true"},
		},
		AddressType: discoveryv1.AddressTypeIPv6,
		Ports:       []discoveryv1.EndpointPort{{Port: ptr.To[int32](53), Protocol: ptr.To(corev1.ProtocolUDP)}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{"fd00::5"}}},
	})
	for _, set := range tracker.Pending().Sets {
		for _, e := range set.Get(endpoints.Key{Protocol: corev1.ProtocolUDP, Family: corev1.IPv6Protocol}) {
			fmt.Println(e, "weight", e.Weight)
		}
	}
	// Output: [fd00::5]:53 weight 0
}

func ExampleNewSet() {
	key := endpoints.Key{Port: "http", Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}
	set := endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{
		key: {{Addr: addrPort("10.0.0.2:80"), Ready: true}, {Addr: addrPort("10.0.0.10:80"), Ready: true}},
	})
	fmt.Println(set.Get(key))
	// Output: [10.0.0.10:80 10.0.0.2:80]
}
