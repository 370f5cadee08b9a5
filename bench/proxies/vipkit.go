package proxies

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/conntrack"
	"github.com/vipkit/vipkit/backends/iptables"
	"github.com/vipkit/vipkit/backends/nftables"
	"github.com/vipkit/vipkit/bench/cluster"
	"github.com/vipkit/vipkit/healthcheck"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// ours is a whole proxy: backend, conntrack and health checks, as kube-proxy has them.
type ours struct {
	proxy   *proxy.Proxy
	written int
}

// Config is the configuration of our plan.
func Config() plan.Config {
	return plan.Config{Node: plan.Node{
		Name:      cluster.Node,
		Zone:      cluster.Zone(0),
		Addresses: []netip.Addr{netip.MustParseAddr(cluster.Address)},
		PodCIDRs:  []netip.Prefix{netip.MustParsePrefix(cluster.PodCIDR)},
	}}
}

func newVipkit(plane string) (Proxy, error) {
	o := &ours{}
	backend, err := o.backend(plane)
	if err != nil {
		return nil, err
	}
	health := healthcheck.New(healthcheck.Options{})
	services, err := healthcheck.NewServices(healthcheck.ServicesOptions{Loop: health.Loop(plane)})
	if err != nil {
		return nil, err
	}
	o.proxy, err = proxy.New(proxy.Options{
		Backend: backend,
		Consumers: []proxy.Consumer{
			{Name: "conntrack", Syncer: conntrack.New(conntrack.Options{})},
			{Name: "healthcheck", Syncer: services},
		},
		Config: Config(),
	})
	return o, err
}

func (o *ours) backend(plane string) (backends.Backend, error) {
	families := []corev1.IPFamily{corev1.IPv4Protocol}
	if plane == NFTables {
		return nftables.New(nftables.Options{
			Families: families,
			OnSync:   func(s backends.Stats) { o.written += s.Written },
		})
	}
	return iptables.New(iptables.Options{
		Variant:  iptables.NFT,
		Families: families,
		OnSync:   func(s backends.Stats) { o.written += s.Written },
	})
}

func (o *ours) Start(services []*corev1.Service, slices []*discoveryv1.EndpointSlice) error {
	o.proxy.ReplaceServices(services)
	o.proxy.ReplaceEndpointSlices(slices)
	if err := o.Sync(); err != nil {
		return err
	}
	if problems := o.proxy.Problems(); len(problems) > 0 {
		return fmt.Errorf("proxies: vipkit left out %d fields, first %v", len(problems), problems[0])
	}
	return nil
}

func (o *ours) AddService(svc *corev1.Service) { o.proxy.SetService(svc) }

func (o *ours) DeleteService(svc *corev1.Service) {
	o.proxy.DeleteService(types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name})
}

func (o *ours) AddSlice(s *discoveryv1.EndpointSlice) { o.proxy.SetEndpointSlice(s) }

func (o *ours) UpdateSlice(_, after *discoveryv1.EndpointSlice) { o.proxy.SetEndpointSlice(after) }

func (o *ours) DeleteSlice(s *discoveryv1.EndpointSlice) {
	o.proxy.DeleteEndpointSlice(types.NamespacedName{Namespace: s.Namespace, Name: s.Name})
}

func (o *ours) SetZone(zone string) {
	node := Config().Node
	node.Zone = zone
	o.proxy.SetNode(node)
}

func (o *ours) Sync() error { return o.proxy.Step(context.Background()) }

func (o *ours) Written() int {
	n := o.written
	o.written = 0
	return n
}
