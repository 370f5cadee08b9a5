package shadow

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/vipkit/vipkit/allocator"
)

// The areas of Services that are written: for real, and as dry runs.
const (
	areaWrites  = "storage"
	areaDryRuns = "storage-dry-run"
)

// A Write is a create, update or delete of a Service that the API server was asked for.
type Write struct {
	Verb          string
	DryRun        bool
	Before, After *corev1.Service // nil if there is none
	Families      []corev1.IPFamily
	Ranges        map[corev1.IPFamily]netip.Prefix
	Held          sets.Set[string] // before the write: addresses, and "port/N"
}

// A WriteAnswer is what upstream made of it.
type WriteAnswer struct {
	Service   *corev1.Service // as it was stored
	Held      sets.Set[string]
	Err       error
	Refused   bool     // the object is not valid
	Fields    []string // that it is not valid for
	Unrelated bool     // an error that has nothing to do with the contents
}

func (w Write) area() string {
	if w.DryRun {
		return areaDryRuns
	}
	return areaWrites
}

// CompareWrite lets vipkit plan and apply the same write on pools that hold the same.
func CompareWrite(w Write, upstream WriteAnswer) {
	if w.Before != nil && w.Before.DeletionTimestamp != nil && w.After != nil && len(w.After.Finalizers) == 0 {
		w.After = nil // the update took the last finalizer away, and so deleted the Service
	}
	id, detail := w.compare(upstream)
	if id == "" {
		Agree(w.area())
		return
	}
	Differ(w.area(), id, "%s: %s: families %v, before %s, after %s", w.Verb, detail, w.Families, spec(w.Before), spec(w.After))
}

func spec(svc *corev1.Service) string {
	if svc == nil {
		return "nothing"
	}
	text, err := json.Marshal(svc.Spec)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// compare returns the id of the difference, "" if there is none.
func (w Write) compare(upstream WriteAnswer) (id, detail string) {
	a, err := w.apply()
	changed := !upstream.Held.Equal(w.Held)
	switch {
	case (upstream.Err != nil || w.DryRun) && changed:
		return "upstream-leaks", fmt.Sprintf("%v: added %v, removed %v", upstream.Err,
			sets.List(upstream.Held.Difference(w.Held)), sets.List(w.Held.Difference(upstream.Held)))
	case upstream.Err != nil && err != nil:
		return "", ""
	case upstream.Err != nil && (upstream.Unrelated || upstream.Refused && !upstream.aboutAllocation()):
		return "refused-for-another-field", upstream.Err.Error()
	case upstream.Err != nil && w.movesNodePort():
		return "node-port-becomes-health-port", upstream.Err.Error()
	case upstream.Err != nil:
		return Unexplained, fmt.Sprintf("upstream refuses (%v), vipkit accepts", upstream.Err)
	case err != nil:
		return Unexplained, fmt.Sprintf("upstream accepts, vipkit refuses (%v)", err)
	}
	var bad []string
	if w.After != nil {
		bad = a.compareFields(upstream.Service)
	}
	if !w.DryRun {
		bad = append(bad, a.compareHeld(upstream.Held)...)
	}
	if len(bad) == 0 {
		return "", ""
	}
	return Unexplained, strings.Join(bad, "; ")
}

// movesNodePort reports whether the number of a NodePort becomes the healthCheckNodePort.
func (w Write) movesNodePort() bool {
	return w.Before != nil && w.After != nil && slices.ContainsFunc(w.Before.Spec.Ports, func(p corev1.ServicePort) bool {
		return p.NodePort != 0 && p.NodePort == w.After.Spec.HealthCheckNodePort
	})
}

// aboutAllocation reports whether the object was refused for a field that has to do with
// addresses and ports.
func (u WriteAnswer) aboutAllocation() bool {
	return slices.ContainsFunc(u.Fields, func(field string) bool {
		for _, part := range []string{"clusterIP", "ipFamil", "odePort", "spec.ports"} {
			if strings.Contains(field, part) {
				return true
			}
		}
		return false
	})
}

// An applied write is what vipkit made of it.
type applied struct {
	Write
	plan    *allocator.ServicePlan
	service *corev1.Service
	picked  map[string]bool // places in the object whose values were picked: "ip/I", "port/I", "health"
}

func (w Write) apply() (*applied, error) {
	p, errs := allocator.Plan(w.Before, w.After, allocator.ClusterConfig{Families: w.Families, UpstreamNodePorts: true})
	if len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	a := &applied{Write: w, plan: p, picked: picked(p)}
	if w.After == nil {
		return a, nil
	}
	pools, err := w.pools(p.Owner)
	if err != nil {
		return nil, err
	}
	if w.DryRun {
		pools = pools.DryRun(allocator.AsUpstream)
	}
	txn, err := pools.Apply(context.Background(), p)
	if err != nil {
		return nil, err
	}
	a.service = txn.Service()
	return a, nil
}

func picked(p *allocator.ServicePlan) map[string]bool {
	out := map[string]bool{}
	for _, c := range p.Claims {
		if c.Explicit() {
			continue
		}
		for _, i := range c.Entries {
			if c.Value.Kind == allocator.ClusterIP {
				out[fmt.Sprint("ip/", i)] = true
			} else {
				out[fmt.Sprint("port/", i)] = true
			}
		}
		if c.Value.Kind == allocator.HealthCheckNodePort {
			out["health"] = true
		}
	}
	return out
}

// pools returns pools that hold what upstream's do; what the Service has is the owner's.
func (w Write) pools(owner allocator.Owner) (*allocator.Services, error) {
	out := &allocator.Services{Addresses: map[corev1.IPFamily]allocator.Source[netip.Addr]{}}
	of := w.ownerOf(owner)
	for family, r := range w.Ranges {
		pool, err := allocator.NewBitmapPool(r, allocator.Options{})
		if err != nil {
			return nil, err
		}
		for _, held := range sets.List(w.Held) {
			a, err := netip.ParseAddr(held)
			if err != nil || !r.Contains(a) {
				continue
			}
			if err := pool.Claim(a, of(held)); err != nil {
				return nil, err
			}
		}
		out.Addresses[family] = pool.Source()
	}
	ports := allocator.NewPortPool(allocator.DefaultNodePorts(), allocator.Options{})
	for _, held := range sets.List(w.Held) {
		var n uint16
		if _, err := fmt.Sscanf(held, "port/%d", &n); err != nil {
			continue
		}
		if err := ports.Claim(n, of(held)); err != nil {
			return nil, err
		}
	}
	out.Ports = ports.Source()
	return out, nil
}

func (w Write) ownerOf(owner allocator.Owner) func(held string) allocator.Owner {
	own := sets.New[string]()
	if w.Before != nil {
		own.Insert(w.Before.Spec.ClusterIPs...)
		for _, p := range w.Before.Spec.Ports {
			own.Insert(fmt.Sprint("port/", p.NodePort))
		}
		own.Insert(fmt.Sprint("port/", w.Before.Spec.HealthCheckNodePort))
	}
	return func(held string) allocator.Owner {
		if own.Has(held) {
			return owner
		}
		return allocator.Owner{Name: "another"}
	}
}
