package plan

import (
	"iter"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/service"
)

// Health is what the health check of a Service answers from.
type Health struct {
	Name types.NamespacedName
	Port uint16 // healthCheckNodePort, not 0

	// Families are those that the Service is proxied in, IPv4 first. It is shared:
	// the caller must not change it.
	Families []corev1.IPFamily

	// Local holds the distinct addresses of the Service's endpoints that are ready
	// and on this node, over all its ports and slices, sorted, IPv4 first. Slices of a family
	// that the Service is not proxied in do not count: no packet reaches their endpoints.
	// A terminating endpoint counts only if it is ready all the same, so that the load
	// balancer drains the node while the endpoint still serves. Endpoints under a
	// port name that the Service does not have count too.
	Local []netip.Addr
}

// LocalFor returns the part of h.Local that decides the answer to a question on an address of
// family f: the endpoints of that family, since a load balancer that asks there sends its
// packets there. If the Service is not proxied in f, it is all of them. The caller must
// not change the result, which shares memory with h.
func (h Health) LocalFor(f corev1.IPFamily) []netip.Addr {
	if !slices.Contains(h.Families, f) {
		return h.Local
	}
	first6, _ := slices.BinarySearchFunc(h.Local, netip.IPv6Unspecified(), netip.Addr.Compare)
	if f == corev1.IPv6Protocol {
		return h.Local[first6:]
	}
	return h.Local[:first6]
}

// Health returns what the health check of a Service answers from; ok is false
// if the Service has no health-check port. The caller must not change h.Local.
func (p *Plan) Health(name types.NamespacedName) (h Health, ok bool) {
	p = p.orEmpty()
	if e := p.services.at(svcName(name)); e != nil && e.health != nil {
		return *e.health, true
	}
	return Health{}, false
}

// AllHealth yields every Service with a health-check port, by namespace and name.
// It walks over all Services.
func (p *Plan) AllHealth() iter.Seq[Health] {
	p = p.orEmpty()
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
	h := &Health{Name: svc.Name, Port: svc.HealthCheckNodePort, Families: svc.Families()}
	for key, list := range set.All() {
		if !slices.Contains(h.Families, key.Family) {
			continue
		}
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
	return a.Name == b.Name && a.Port == b.Port && slices.Equal(a.Families, b.Families) && slices.Equal(a.Local, b.Local)
}
