package plan

import (
	"cmp"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/internal/ext"
	"github.com/vipkit/vipkit/proxy/service"
	"github.com/vipkit/vipkit/topology"
)

// buildPorts makes the ports of a Service, sorted by key.
func (p *Plan) buildPorts(svc *service.Service, set *endpoints.Set) []*Port {
	var ports []*Port
	for own := p.ownedBy(svc); len(own) > 0; {
		n := 1
		for n < len(own) && own[n].key() == own[0].key() {
			n++
		}
		ports = append(ports, p.buildPort(svc, own[:n], set))
		own = own[n:]
	}
	return ports
}

// ownedBy lists the sites that a Service has and that are served, sorted by key
// and then as frontends are.
func (p *Plan) ownedBy(svc *service.Service) []siteClaim {
	own := slices.DeleteFunc(claimsOf(svc), func(c siteClaim) bool {
		first := p.claims.at(c.site)[0]
		return first.owner != c.owner || first.kind != c.kind || c.nodePort && !p.rules.of(c.family()).nodePorts
	})
	slices.SortFunc(own, func(a, b siteClaim) int {
		return cmp.Or(a.key().Compare(b.key()), cmp.Compare(a.kind, b.kind), a.Compare(b.site))
	})
	return own
}

func (c siteClaim) key() Key { return Key{c.owner, c.family()} }

// buildPort makes the port that own, which is not empty, are the sites of.
func (p *Plan) buildPort(svc *service.Service, own []siteClaim, set *endpoints.Set) *Port {
	port := &Port{
		Key:                 own[0].key(),
		Frontends:           make([]Frontend, len(own)),
		AffinityTimeout:     svc.AffinityTimeout,
		HealthCheckNodePort: svc.HealthCheckNodePort,
		Ext:                 svc.Ext,
	}
	policy := svc.Policy(own[0].port, port.Family)
	usable := port.choose(set, p.rules.node, policy)
	for i, c := range own {
		f := Frontend{Kind: c.kind, Port: c.site.port}
		if c.kind != NodePort {
			f.Addr = c.addr
		}
		if c.kind == LoadBalancerIP {
			f.Restricted, f.Allow = p.rules.allow(svc.Addresses(port.Family), port.Family)
		}
		local := policy.ExternalLocal
		if c.kind == ClusterIP {
			local = policy.InternalLocal
		}
		f.Actions = p.rules.actions(row{c.kind, port.Family, local, usable, len(port.Local) > 0})
		port.Frontends[i] = f
	}
	return port
}

// choose fills in the endpoints. It returns false if none can be used from anywhere.
func (p *Port) choose(set *endpoints.Set, node topology.Node, policy service.Policy) (usable bool) {
	all := set.Get(endpoints.Key{Port: p.Port, Protocol: p.Protocol, Family: p.Family})
	sel := topology.Select(all, node, policy)
	p.Cluster, p.Local, p.Reachable = sel.Cluster, sel.Local, sel.Reachable
	p.Mode, p.Reason = sel.Mode, sel.Reason
	p.Serving = serving(all)
	return sel.Any
}

// serving returns all itself in the usual case that every endpoint serves.
func serving(all []*endpoints.Endpoint) []*endpoints.Endpoint {
	not := func(e *endpoints.Endpoint) bool { return !e.Serving }
	if !slices.ContainsFunc(all, not) {
		return slices.Clip(all)
	}
	return slices.DeleteFunc(slices.Clone(all), not)
}

// A row is what one line of the decision table depends on.
type row struct {
	kind   FrontendKind
	family corev1.IPFamily
	local  bool // the policy for this kind of frontend is Local
	usable bool // some endpoint can be used from somewhere
	here   bool // the local pool has endpoints
}

// actions returns a line of the decision table. Pods that cannot be told apart
// count as outside.
func (r *rules) actions(t row) [NumOrigins]Action {
	a := r.decide(t)
	if !r.of(t.family).detector {
		a[FromPod] = a[FromOutside]
	}
	return a
}

// decide is the decision table of the package documentation, line by line.
func (r *rules) decide(t row) [NumOrigins]Action {
	var (
		cluster     = Action{Verdict: Forward, Pool: ClusterPool}
		clusterMasq = Action{Verdict: Forward, Pool: ClusterPool, Masquerade: true}
		local       = Action{Verdict: Forward, Pool: LocalPool}
		reject      = Action{Verdict: Reject}
		drop        = Action{Verdict: Drop}
	)
	internal := t.kind == ClusterIP
	switch {
	case !t.usable:
		return [NumOrigins]Action{FromPod: reject, FromNode: reject, FromOutside: reject}
	case internal && t.local && !t.here:
		return [NumOrigins]Action{FromPod: drop, FromNode: drop, FromOutside: drop}
	case internal && t.local:
		return r.internal(local, t.family)
	case internal:
		return r.internal(cluster, t.family)
	case !t.local:
		return [NumOrigins]Action{FromPod: clusterMasq, FromNode: clusterMasq, FromOutside: clusterMasq}
	case t.here:
		return [NumOrigins]Action{FromPod: cluster, FromNode: clusterMasq, FromOutside: local}
	default:
		return [NumOrigins]Action{FromPod: cluster, FromNode: clusterMasq, FromOutside: drop}
	}
}

// internal returns a, masqueraded for all but this node's pods if those can be
// told apart, for everybody with MasqueradeAll.
func (r *rules) internal(a Action, f corev1.IPFamily) [NumOrigins]Action {
	pod, other := a, a
	pod.Masquerade = r.masqueradeAll
	other.Masquerade = r.masqueradeAll || r.of(f).detector
	return [NumOrigins]Action{FromPod: pod, FromNode: other, FromOutside: other}
}

// allow returns who may use the load-balancer IPs of a Service in one family. A range of all
// addresses restricts nobody.
//
// If a range has an address of this node, the load-balancer IPs are added: the
// kernel gives a node that dials an address bound to itself that same address as
// source, and its own packets would be refused.
func (r *rules) allow(a *service.Addresses, f corev1.IPFamily) (restricted bool, list []netip.Prefix) {
	if len(a.SourceRanges) == 0 {
		return r.denyInvalid && a.SourceRangesInvalid, nil
	}
	list = slices.Clone(a.SourceRanges)
	if slices.ContainsFunc(r.of(f).addrs, func(n netip.Addr) bool { return containsAddr(a.SourceRanges, n) }) {
		for _, vip := range a.LoadBalancerIPs {
			list = append(list, netip.PrefixFrom(vip, vip.BitLen()))
		}
	}
	list = disjoint(list)
	everybody := len(list) > 0 && list[0].Bits() == 0
	if everybody {
		return false, nil
	}
	return true, list
}

// equal reports whether p and o have the same content.
func (p *Port) equal(o *Port) bool {
	if p == o {
		return true
	}
	if p == nil || o == nil {
		return false
	}
	return p.Key == o.Key && slices.EqualFunc(p.Frontends, o.Frontends, Frontend.equal) &&
		p.AffinityTimeout == o.AffinityTimeout && p.HealthCheckNodePort == o.HealthCheckNodePort &&
		p.Mode == o.Mode && p.Reason == o.Reason && ext.Equal(p.Ext, o.Ext) &&
		equalLists(p.Cluster, o.Cluster) && equalLists(p.Local, o.Local) &&
		equalLists(p.Reachable, o.Reachable) && equalLists(p.Serving, o.Serving)
}

// equalLists is fast for lists that share their endpoints, as those of one tracker do.
func equalLists(a, b []*endpoints.Endpoint) bool { return slices.EqualFunc(a, b, endpoints.Equal) }

func (f Frontend) equal(o Frontend) bool {
	return f.Kind == o.Kind && f.Addr == o.Addr && f.Port == o.Port && f.Actions == o.Actions &&
		f.Restricted == o.Restricted && slices.Equal(f.Allow, o.Allow)
}
