package proxy

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

type vipkitServices = shadow.Services

// Vipkit returns vipkit's tracker beside this one.
func (sct *ServiceChangeTracker) Vipkit() *shadow.Services {
	sct.lock.Lock()
	defer sct.lock.Unlock()
	if sct.vipkit == nil {
		sct.vipkit = shadow.NewServices(sct.ipFamily)
	}
	return sct.vipkit
}

// Update gives both trackers the change.
func (sct *ServiceChangeTracker) Update(previous, current *v1.Service) bool {
	if previous != nil || current != nil {
		sct.Vipkit().Update(previous, current)
	}
	return sct.upstreamUpdate(previous, current)
}

// Update compares what has changed before upstream forgets it.
func (sm ServicePortMap) Update(sct *ServiceChangeTracker) UpdateServiceMapResult {
	theirs := map[types.NamespacedName]shadow.ServiceChange{}
	for name, c := range sct.items {
		theirs[name] = shadow.ServiceChange{Previous: vipkitPorts(c.previous), Current: vipkitPorts(c.current)}
	}
	sct.Vipkit().Checkout(theirs)
	return sm.upstreamUpdate(sct)
}

func (sct *ServiceChangeTracker) serviceToServiceMap(obj *v1.Service) ServicePortMap {
	m := sct.upstreamServiceToServiceMap(obj)
	if obj != nil {
		shadow.CompareConversion(obj, sct.ipFamily, vipkitPorts(m))
	}
	return m
}

func vipkitPorts(m ServicePortMap) []shadow.ServicePort {
	var out []shadow.ServicePort
	for name, p := range m {
		out = append(out, shadow.ServicePort{
			Name: name.Port, Protocol: fmt.Sprint(p.Protocol()), ClusterIP: p.ClusterIP().String(),
			Port: p.Port(), NodePort: p.NodePort(),
			HealthCheckNodePort: p.HealthCheckNodePort(), AffinitySeconds: p.StickyMaxAgeSeconds(),
			ExternalIPs: shadow.Texts(p.ExternalIPs()), LoadBalancerIPs: shadow.Texts(p.LoadBalancerVIPs()),
			SourceRanges:  shadow.Texts(p.LoadBalancerSourceRanges()),
			ExternalLocal: p.ExternalPolicyLocal(), InternalLocal: p.InternalPolicyLocal(),
			External: p.ExternallyAccessible(), UsesCluster: p.UsesClusterEndpoints(), UsesLocal: p.UsesLocalEndpoints(),
		})
	}
	return out
}
