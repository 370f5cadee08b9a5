// Package cluster makes the synthetic clusters that both proxies are driven over: plain
// objects as an informer would deliver them, no two of which share a string.
//
// Service i has one TCP port and the ClusterIP [VIP](i); its endpoints are spread
// over [Nodes] nodes, so about one in a hundred is on [Node]. One Service in a hundred
// follows zone hints.
package cluster

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The node that is measured, and what is around it.
const (
	Node      = "node-0"
	Address   = "192.0.2.10" // of the node
	PodCIDR   = "10.128.0.0/24"
	Nodes     = 100
	Zones     = 3
	Port      = 80
	hintEvery = 100
)

// A Cluster is the state of the API: Services[i] belongs to Slices[i].
type Cluster struct {
	Services []*corev1.Service
	Slices   []*discoveryv1.EndpointSlice

	endpoints int
	version   int // of the last change, so that no two are the same
}

// New returns a Cluster of n Services with the same number of endpoints each.
func New(n, endpoints int) *Cluster {
	c := &Cluster{
		Services:  make([]*corev1.Service, n),
		Slices:    make([]*discoveryv1.EndpointSlice, n),
		endpoints: endpoints,
	}
	for i := range n {
		c.Services[i], c.Slices[i] = NewService(i), c.newSlice(i)
	}
	return c
}

// VIP returns the ClusterIP of Service i, for i below a million.
func VIP(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 96 + byte(i>>16), byte(i >> 8), byte(i)})
}

// endpointIP returns the k-th of two million endpoint addresses.
func endpointIP(k int) string {
	return netip.AddrFrom4([4]byte{10, 128 + byte(k>>16), byte(k >> 8), byte(k)}).String()
}

// Zone returns the name of the i-th zone.
func Zone(i int) string { return fmt.Sprintf("zone-%d", i%Zones) }

// NewService returns Service i.
func NewService(i int) *corev1.Service {
	vip := VIP(i).String()
	family := corev1.IPv4Protocol
	policy := corev1.ServiceInternalTrafficPolicyCluster
	svc := &corev1.Service{
		ObjectMeta: meta(i, fmt.Sprintf("svc-%d", i)),
		Spec: corev1.ServiceSpec{
			Type:                  corev1.ServiceTypeClusterIP,
			ClusterIP:             vip,
			ClusterIPs:            []string{strings.Clone(vip)},
			IPFamilies:            []corev1.IPFamily{family},
			SessionAffinity:       corev1.ServiceAffinityNone,
			InternalTrafficPolicy: &policy,
			Selector:              map[string]string{"app": fmt.Sprintf("svc-%d", i)},
			Ports:                 []corev1.ServicePort{{Name: strings.Clone("http"), Protocol: corev1.ProtocolTCP, Port: Port}},
		},
	}
	if i%hintEvery == 0 {
		same := corev1.ServiceTrafficDistributionPreferClose
		svc.Spec.TrafficDistribution = &same
	}
	return svc
}

func meta(i int, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace:       fmt.Sprintf("ns-%d", i%100),
		Name:            name,
		ResourceVersion: "1",
		Labels:          map[string]string{"app": fmt.Sprintf("svc-%d", i)},
	}
}

func (c *Cluster) newSlice(i int) *discoveryv1.EndpointSlice {
	first := i * c.endpoints
	eps := make([]discoveryv1.Endpoint, 0, c.endpoints)
	for k := first; k < first+c.endpoints; k++ {
		eps = append(eps, NewEndpoint(endpointIP(k), k))
	}
	s := NewSlice(i, fmt.Sprintf("svc-%d-abcde", i), eps)
	if i%hintEvery == 0 {
		for k := range eps {
			eps[k].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: *eps[k].Zone}}}
		}
	}
	return s
}

// NewSlice returns a slice of Service i with these endpoints, which belong to it.
func NewSlice(i int, name string, eps []discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	port, protocol, portName := int32(8080), corev1.ProtocolTCP, strings.Clone("http")
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  meta(i, name),
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   eps,
		Ports:       []discoveryv1.EndpointPort{{Name: &portName, Protocol: &protocol, Port: &port}},
	}
	s.Labels[discoveryv1.LabelServiceName] = fmt.Sprintf("svc-%d", i)
	return s
}

// NewEndpoint returns a ready endpoint on the k-th node.
func NewEndpoint(ip string, k int) discoveryv1.Endpoint {
	ready, serving, terminating := true, true, false
	node, zone := fmt.Sprintf("node-%d", k%Nodes), Zone(k)
	return discoveryv1.Endpoint{
		Addresses:  []string{ip},
		NodeName:   &node,
		Zone:       &zone,
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef: &corev1.ObjectReference{
			Kind: "Pod", Namespace: "ns", Name: fmt.Sprintf("pod-%d", k), UID: "00000000-0000-0000-0000-000000000000",
		},
	}
}
