package plan

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/proxy/service"
)

// A site is what only one Service port can have: an address, port and protocol,
// or a NodePort in one family.
type site struct {
	addr     netip.Addr // the unspecified address of the family for a NodePort
	port     uint16
	nodePort bool
	proto    corev1.Protocol
}

func siteOf(f *Frontend, k Key) site {
	if f.Kind == NodePort {
		return nodePortSite(k.Family, f.Port, k.Protocol)
	}
	return site{addr: f.Addr, port: f.Port, proto: k.Protocol}
}

func nodePortSite(f corev1.IPFamily, port uint16, proto corev1.Protocol) site {
	s := site{addr: netip.IPv4Unspecified(), port: port, nodePort: true, proto: proto}
	if f == corev1.IPv6Protocol {
		s.addr = netip.IPv6Unspecified()
	}
	return s
}

// Compare orders by address, port and protocol.
func (s site) Compare(o site) int {
	if c := cmp.Or(s.addr.Compare(o.addr), cmp.Compare(s.port, o.port), strings.Compare(string(s.proto), string(o.proto))); c != 0 {
		return c
	}
	switch {
	case s.nodePort == o.nodePort:
		return 0
	case o.nodePort:
		return -1
	default:
		return 1
	}
}

func (s site) family() corev1.IPFamily { return ip.Family(s.addr) }

// A claim is the wish of a Service port for a site.
type claim struct {
	owner   service.PortName
	created time.Time
	kind    FrontendKind
}

// compare orders the claims for one site: the first owns it. ClusterIP comes
// before load-balancer IP before external IP, then the oldest Service, then the name.
func (c claim) compare(o claim) int {
	return cmp.Or(cmp.Compare(c.kind.rank(), o.kind.rank()), c.created.Compare(o.created), c.owner.Compare(o.owner))
}

func (k FrontendKind) rank() int {
	switch k {
	case LoadBalancerIP:
		return 1
	case ExternalIP:
		return 2
	case ClusterIP, NodePort: // a NodePort never meets another kind
		return 0
	default:
		return 3
	}
}

// A siteClaim is a claim with its site and the Service port that makes it.
type siteClaim struct {
	site
	claim
	port service.Port
}

// claimsOf lists what a Service wants, sorted by site, the best claim of each
// site only: within one Service nothing is a conflict.
func claimsOf(svc *service.Service) []siteClaim {
	if svc == nil {
		return nil
	}
	var list []siteClaim
	for _, f := range svc.Families() {
		for i, p := range svc.Ports {
			if !repeats(svc.Ports, i) {
				list = appendClaims(list, svc, p, f)
			}
		}
	}
	slices.SortFunc(list, func(a, b siteClaim) int {
		return cmp.Or(a.Compare(b.site), a.compare(b.claim))
	})
	return slices.CompactFunc(list, func(a, b siteClaim) bool { return a.site == b.site })
}

// repeats reports whether ports[i] has the name and protocol of the port before:
// the API forbids it, and one of them would be lost under their common key.
func repeats(ports []service.Port, i int) bool {
	return i > 0 && ports[i].Name == ports[i-1].Name && ports[i].Protocol == ports[i-1].Protocol
}

func appendClaims(list []siteClaim, svc *service.Service, p service.Port, f corev1.IPFamily) []siteClaim {
	owner := service.PortName{NamespacedName: svc.Name, Port: p.Name, Protocol: p.Protocol}
	add := func(kind FrontendKind, addrs ...netip.Addr) {
		for _, a := range addrs {
			s := site{addr: a, port: p.Port, proto: p.Protocol}
			list = append(list, siteClaim{s, claim{owner, svc.Created, kind}, p})
		}
	}
	a := svc.Addresses(f)
	add(ClusterIP, a.ClusterIP)
	add(LoadBalancerIP, a.LoadBalancerIPs...)
	add(ExternalIP, a.ExternalIPs...)
	if p.NodePort != 0 {
		list = append(list, siteClaim{nodePortSite(f, p.NodePort, p.Protocol), claim{owner, svc.Created, NodePort}, p})
	}
	return list
}

// without returns claims without those of a Service; claims is unchanged.
func without(claims []claim, owner service.PortName) []claim {
	return slices.DeleteFunc(slices.Clone(claims), func(c claim) bool { return c.owner.NamespacedName == owner.NamespacedName })
}

// with returns claims and c in order; claims is unchanged.
func with(claims []claim, c claim) []claim {
	i, _ := slices.BinarySearchFunc(claims, c, claim.compare)
	out := make([]claim, 0, len(claims)+1)
	return append(append(append(out, claims[:i]...), c), claims[i:]...)
}

// Conflicts lists the claims that lost, by address, protocol and loser. Several
// claims of one Service are no conflict, and a NodePort that is not served is none.
func (p *Plan) Conflicts() []Conflict {
	p = p.orEmpty()
	if p.base != nil {
		return p.base.Conflicts()
	}
	var list []Conflict
	for s := range p.contested.all() {
		if s.nodePort && !p.rules.of(s.family()).nodePorts {
			continue
		}
		claims := p.claims.at(s)
		for _, lost := range claims[1:] {
			c := Conflict{Addr: netip.AddrPortFrom(s.addr, s.port), Protocol: s.proto, Owner: claims[0].owner, Loser: lost.owner}
			if s.nodePort {
				c.Addr = netip.AddrPortFrom(netip.Addr{}, s.port)
			}
			list = append(list, c)
		}
	}
	slices.SortFunc(list, Conflict.compare)
	return slices.Compact(list) // a NodePort that is lost in both families is one conflict
}

func (c Conflict) compare(o Conflict) int {
	return cmp.Or(c.Addr.Compare(o.Addr), strings.Compare(string(c.Protocol), string(o.Protocol)), c.Loser.Compare(o.Loser), c.Owner.Compare(o.Owner))
}
