package plan

import (
	"iter"
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/service"
)

// Health is what the health check of a Service answers from.
type Health struct {
	Name types.NamespacedName
	Port uint16 // healthCheckNodePort, not 0

	// Local are the distinct addresses of the Service's endpoints that are ready
	// and on this node, over all its ports and slices and both families, sorted. An
	// endpoint that terminates counts only if it is ready all the same: the load
	// balancer shall drain the node while it still serves. Endpoints under a
	// port name that the Service does not have count too.
	Local []netip.Addr
}

// Health returns what the health check of a Service answers from; ok is false
// if the Service has no health-check port. The caller must not change h.Local.
func (p *Plan) Health(name types.NamespacedName) (h Health, ok bool) {
	if e := p.services.at(svcName(name)); e != nil && e.health != nil {
		return *e.health, true
	}
	return Health{}, false
}

// AllHealth yields every Service with a health-check port, by namespace and name.
// It walks over all Services.
func (p *Plan) AllHealth() iter.Seq[Health] {
	return func(yield func(Health) bool) {
		for _, e := range p.services.all() {
			if e.health != nil && !yield(*e.health) {
				return
			}
		}
	}
}

func buildHealth(svc *service.Service, set *endpoints.Set, node string) *Health {
	if svc == nil || svc.HealthCheckNodePort == 0 {
		return nil
	}
	h := &Health{Name: svc.Name, Port: svc.HealthCheckNodePort}
	for _, list := range set.All() {
		for _, e := range list {
			if e.Ready && e.IsOn(node) {
				h.Local = append(h.Local, e.Addr.Addr())
			}
		}
	}
	slices.SortFunc(h.Local, netip.Addr.Compare)
	h.Local = slices.Compact(h.Local)
	return h
}

func equalHealth(a, b *Health) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Name == b.Name && a.Port == b.Port && slices.Equal(a.Local, b.Local)
}
