package proxies

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/bench/cluster"
	"github.com/vipkit/vipkit/bench/kubeproxy"
)

// theirs is one of kube-proxy's proxiers, with its statements counted.
type theirs struct {
	*kubeproxy.Proxy
	statements int
}

func newTheirs(plane string) (Proxy, error) {
	t := &theirs{}
	var err error
	t.Proxy, err = kubeproxy.New(kubeproxy.Config{
		Plane:    plane,
		Families: []corev1.IPFamily{corev1.IPv4Protocol},
		Settings: backendtest.Settings{
			NodeName:  cluster.Node,
			Zone:      cluster.Zone(0),
			Addresses: []netip.Addr{netip.MustParseAddr(cluster.Address)},
			PodCIDRs:  []netip.Prefix{netip.MustParsePrefix(cluster.PodCIDR)},
		},
		Count: func(n int, _ error) { t.statements += n },
	})
	return t, err
}

func (t *theirs) Start(services []*corev1.Service, slices []*discoveryv1.EndpointSlice) error {
	for _, svc := range services {
		t.SetService(nil, svc)
	}
	for _, s := range slices {
		t.SetSlice(nil, s)
	}
	return t.Proxy.Start()
}

func (t *theirs) AddService(svc *corev1.Service)                       { t.SetService(nil, svc) }
func (t *theirs) DeleteService(svc *corev1.Service)                    { t.SetService(svc, nil) }
func (t *theirs) AddSlice(s *discoveryv1.EndpointSlice)                { t.SetSlice(nil, s) }
func (t *theirs) DeleteSlice(s *discoveryv1.EndpointSlice)             { t.SetSlice(s, nil) }
func (t *theirs) UpdateSlice(before, after *discoveryv1.EndpointSlice) { t.SetSlice(before, after) }

func (t *theirs) Written() int {
	n := t.statements
	t.statements = 0
	return n
}
