// Custombackend shows how to write a data plane of your own: backend.go is all that a
// Backend needs, and main_test.go puts it through the conformance suite. The data plane, in switch.go,
// is a table in memory, so it needs no kernel and no rights.
//
//	go run ./examples/custombackend
//	go test ./examples/custombackend
package main

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "custombackend:", err)
		os.Exit(1)
	}
}

// run is what a node agent does; yours calls Run in the place of Step.
func run(ctx context.Context, out io.Writer) error {
	s := &Switch{}
	p, err := proxy.New(proxy.Options{
		Backend: NewBackend(s),
		Config:  plan.Config{Node: plan.Node{Name: "node-1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.10")}}},
	})
	if err != nil {
		return err
	}
	p.ReplaceServices([]*corev1.Service{web()})
	p.ReplaceEndpointSlices([]*discoveryv1.EndpointSlice{pods("10.244.1.5", "10.244.2.7")})
	for range 2 {
		if err := p.Step(ctx); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, answers(s)); err != nil {
			return err
		}
		p.SetEndpointSlice(pods("10.244.2.7")) // one pod goes
	}
	return nil
}

// answers tells where packets from outside go.
func answers(s *Switch) string {
	var text strings.Builder
	for _, dst := range []string{"10.96.0.10:80", "192.0.2.10:30080", "10.96.0.10:443"} {
		t := s.Trace(plan.Packet{
			Source: netip.MustParseAddr("203.0.113.7"), Destination: netip.MustParseAddrPort(dst), Protocol: corev1.ProtocolTCP,
		})
		fmt.Fprintf(&text, "%-17s %s %v\n", dst, t.Verdict, t.Endpoints)
	}
	return text.String()
}

func web() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports:      []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
	}
}

func pods(ips ...string) *discoveryv1.EndpointSlice {
	port := int32(8080)
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Port: &port}},
	}
	for _, ip := range slices.Sorted(slices.Values(ips)) {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}})
	}
	return s
}
