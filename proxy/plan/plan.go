package plan

import (
	"cmp"
	"iter"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/proxy/service"
)

// A Plan is the desired state of one node: for every Service port what happens
// to which packet. It is immutable, safe for concurrent use, and stays valid
// for as long as somebody keeps it; Plans share all that did not change. A nil Plan is that
// of New(Config{}).
type Plan struct {
	cfg   Config // normalized
	rules rules  // what ports depend on of cfg

	services  tree[svcName, *entry]
	claims    tree[site, []claim]   // never empty; the first owns the site
	contested tree[site, struct{}]  // sites with claims of several Services
	clusterIP tree[netip.Addr, int] // number of frontends of kind ClusterIP
	ports     int                   // number of ports
	nodePorts [2]int                // NodePorts that Services want, by family
	here      presence              // of all endpoints

	// base is set in a Plan made by Hold, which shows held otherwise than base.
	base *Plan
	held []Key
}

type svcName types.NamespacedName

// Compare orders by namespace and name.
func (n svcName) Compare(o svcName) int {
	return cmp.Or(strings.Compare(n.Namespace, o.Namespace), strings.Compare(n.Name, o.Name))
}

// An entry is all about one Service. It is immutable.
type entry struct {
	svc    *service.Service // nil if only endpoints are known
	set    *endpoints.Set   // nil if there are none
	ports  []*Port          // sorted by key
	health *Health          // nil if there is no health-check port
	here   presence         // of set
}

func (e *entry) find(k Key) (int, bool) {
	return slices.BinarySearchFunc(e.ports, k, func(p *Port, k Key) int { return p.Compare(k) })
}

// New returns the Plan of a node without Services.
func New(cfg Config) *Plan {
	cfg = cfg.normal()
	return &Plan{cfg: cfg, rules: cfg.rules()}
}

// orEmpty returns p, or a Plan without anything if p is nil.
func (p *Plan) orEmpty() *Plan {
	if p == nil {
		return New(Config{})
	}
	return p
}

// Len returns the number of ports.
func (p *Plan) Len() int {
	p = p.orEmpty()
	return p.ports
}

// Port returns the port named k, nil if there is none.
func (p *Plan) Port(k Key) *Port {
	p = p.orEmpty()
	e := p.services.at(svcName(k.NamespacedName))
	if e == nil {
		return nil
	}
	if i, ok := e.find(k); ok {
		return e.ports[i]
	}
	return nil
}

// All yields every port in the order of [Key.Compare].
func (p *Plan) All() iter.Seq[*Port] {
	p = p.orEmpty()
	return func(yield func(*Port) bool) {
		for _, e := range p.services.all() {
			for _, port := range e.ports {
				if !yield(port) {
					return
				}
			}
		}
	}
}

// Lookup returns the port that owns the frontend at an exact address, and the
// frontend; nil if there is none. NodePorts, which have no address of their own,
// are found by [Plan.LookupNodePort].
func (p *Plan) Lookup(dst netip.AddrPort, proto corev1.Protocol) (*Port, *Frontend) {
	p = p.orEmpty()
	return p.owner(site{addr: ip.Canonical(dst.Addr()), port: dst.Port(), proto: proto})
}

// LookupNodePort returns the port that owns a NodePort in one family, and the
// frontend; nil if there is none. [Plan.NodePortAddresses] returns the addresses that serve it.
func (p *Plan) LookupNodePort(f corev1.IPFamily, port uint16, proto corev1.Protocol) (*Port, *Frontend) {
	p = p.orEmpty()
	return p.owner(nodePortSite(f, port, proto))
}

func (p *Plan) owner(s site) (*Port, *Frontend) {
	claims := p.claims.at(s)
	if len(claims) == 0 {
		return nil, nil
	}
	port := p.Port(Key{claims[0].owner, s.family()})
	if port == nil {
		return nil, nil
	}
	for i := range port.Frontends {
		if f := &port.Frontends[i]; siteOf(f, port.Key) == s {
			return port, f
		}
	}
	return nil, nil
}

// IsClusterIP reports whether some port has a frontend of kind ClusterIP there:
// its unused ports reject.
func (p *Plan) IsClusterIP(a netip.Addr) bool {
	p = p.orEmpty()
	return p.clusterIP.at(ip.Canonical(a)) > 0
}
