// Package proxies puts kube-proxy and vipkit behind one interface, so that both are
// driven by the same events in the same order.
package proxies

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// The names of the two.
const (
	KubeProxy = "kube-proxy"
	Vipkit    = "vipkit"
)

// The data planes that both can write.
const (
	NFTables = "nftables"
	IPTables = "iptables" // the nft program
)

// A Proxy is one of the two, for IPv4 only. Events are given in the form of an informer;
// they only mark something as changed, and Sync writes it.
type Proxy interface {
	// Start hands over everything there is and writes it for the first time.
	Start(services []*corev1.Service, slices []*discoveryv1.EndpointSlice) error

	AddService(svc *corev1.Service)
	DeleteService(svc *corev1.Service)
	AddSlice(s *discoveryv1.EndpointSlice)
	UpdateSlice(before, after *discoveryv1.EndpointSlice)
	DeleteSlice(s *discoveryv1.EndpointSlice)
	SetZone(zone string)

	// Sync writes what changed.
	Sync() error

	// Written returns how many statements were written since it was last called.
	// A line of iptables-restore is one, and so is an object, rule or element of nftables.
	Written() int
}

// New returns a Proxy that has seen nothing yet and writes to the network namespace of
// the process.
func New(name, plane string) (Proxy, error) {
	switch name + " " + plane {
	case KubeProxy + " " + NFTables, KubeProxy + " " + IPTables:
		return newTheirs(plane)
	case Vipkit + " " + NFTables, Vipkit + " " + IPTables:
		return newVipkit(plane)
	default:
		return nil, fmt.Errorf("proxies: no %s with %s", name, plane)
	}
}
