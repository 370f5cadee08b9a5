package traffic

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/bench/cluster"
	"github.com/vipkit/vipkit/bench/proxies"
	"github.com/vipkit/vipkit/bench/results"
	"github.com/vipkit/vipkit/bench/worker"
)

// The steps. Setup comes first.
const (
	Setup    = "set up"
	Direct   = "TCP connections to the server itself"
	First    = "TCP connections through the first Service"
	Middle   = "TCP connections through the middle Service"
	Last     = "TCP connections through the last Service"
	Affinity = "TCP connections, affinity, 100 endpoints"
	Requests = "UDP requests through the last Service"
	Bulk     = "bulk transfer through the last Service"
)

// Steps returns the steps after Setup.
func Steps() []string {
	return []string{Direct, First, Middle, Last, Affinity, Requests, Bulk}
}

// port is where the servers listen, the same for TCP and UDP.
const port = 8080

// A Stage is a lab whose node has the rules of one proxy.
type Stage struct {
	spec    worker.Spec
	proxy   proxies.Proxy
	lab     *netlab.Lab
	targets map[string]netip.AddrPort // by step
}

// New returns a Stage without a lab.
func New(spec worker.Spec) *Stage { return &Stage{spec: spec} }

// Run sets up or measures.
func (s *Stage) Run(step string) (results.Values, error) {
	if step == Setup {
		return nil, s.setup()
	}
	to, ok := s.targets[step]
	if !ok {
		return nil, fmt.Errorf("traffic: no step %q", step)
	}
	switch step {
	case Requests:
		return s.load(exchangeUDP, to)
	case Bulk:
		return s.bulk(to)
	default:
		return s.load(connectTCP, to)
	}
}

func (s *Stage) setup() error {
	var err error
	if s.lab, err = newLab(); err != nil {
		return err
	}
	if err := s.lab.Namespace(serverHost).Do(serve); err != nil {
		return err
	}
	c := s.cluster()
	return s.lab.Namespace(netlab.NodeName).Do(func() error {
		if s.proxy, err = proxies.New(s.spec.Proxy, s.spec.Plane); err != nil {
			return err
		}
		return s.proxy.Start(c.Services, c.Slices)
	})
}

// cluster returns a Cluster in which those Services have real endpoints that are dialled.
func (s *Stage) cluster() *cluster.Cluster {
	n := s.spec.Services
	c := cluster.New(n, s.spec.Endpoints)
	last := n - 1
	for _, i := range []int{0, n / 2, last} {
		// No hints, so that all have the same number of endpoints.
		c.Services[i].Spec.TrafficDistribution = nil
		c.Slices[i] = realSlice(i, s.spec.Endpoints)
	}
	c.Services[last].Spec.Ports = append(c.Services[last].Spec.Ports, corev1.ServicePort{Name: "udp", Protocol: corev1.ProtocolUDP, Port: cluster.Port})
	name, udp, number := "udp", corev1.ProtocolUDP, int32(port)
	c.Slices[last].Ports = append(c.Slices[last].Ports, discoveryv1.EndpointPort{Name: &name, Protocol: &udp, Port: &number})

	sticky := cluster.NewService(n + 1)
	sticky.Spec.TrafficDistribution = nil
	sticky.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	timeout := int32(10800)
	sticky.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
	c.Services = slices.Insert(c.Services, n/2, sticky)
	c.Slices = slices.Insert(c.Slices, n/2, realSlice(n+1, affinityEndpoints))

	at := func(a netip.Addr) netip.AddrPort { return netip.AddrPortFrom(a, cluster.Port) }
	s.targets = map[string]netip.AddrPort{
		Direct: netip.AddrPortFrom(serverIP(0), port),
		First:  at(cluster.VIP(0)), Middle: at(cluster.VIP(n / 2)), Last: at(cluster.VIP(last)),
		Affinity: at(cluster.VIP(n + 1)), Requests: at(cluster.VIP(last)), Bulk: at(cluster.VIP(last)),
	}
	return c
}

// realSlice has endpoints that answer. They are on another node.
func realSlice(i, n int) *discoveryv1.EndpointSlice {
	eps := make([]discoveryv1.Endpoint, 0, n)
	for k := range min(n, affinityEndpoints) {
		eps = append(eps, cluster.NewEndpoint(serverIP(k).String(), 1))
	}
	return cluster.NewSlice(i, fmt.Sprintf("svc-%d-abcde", i), eps)
}
