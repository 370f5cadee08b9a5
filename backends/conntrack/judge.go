package conntrack

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A Judge decides which UDP flows of one family a Delta makes stale. It is safe for
// concurrent use and does no I/O.
type Judge struct {
	plan *plan.Plan
	full bool

	// The frontends in question, each with the endpoints that flows to it may have.
	exact     map[netip.AddrPort]allowed
	nodePorts map[uint16]allowed

	now, before nodeAddresses // that serve NodePorts
}

// allowed are endpoints to which flows may go on; nil if there are none.
type allowed map[netip.AddrPort]struct{}

// NewJudge returns the Judge of one family of d. Local are addresses of the node besides
// those in the plan; they matter if NodePorts are served on every local address.
// The cost is that of the changes in d, but all NodePorts are looked at if they
// are served on other addresses than before. A nil d changes nothing.
func NewJudge(d *plan.Delta, f corev1.IPFamily, local []netip.Addr) *Judge {
	return newJudge(d, f, local, nil)
}

// newJudge is NewJudge that puts the doubts, which may be nil, in question too.
func newJudge(d *plan.Delta, f corev1.IPFamily, local []netip.Addr, more *doubts) *Judge {
	if d == nil {
		d = &plan.Delta{}
	}
	j := &Judge{
		plan:      d.New,
		full:      d.Full,
		exact:     map[netip.AddrPort]allowed{},
		nodePorts: map[uint16]allowed{},
		now:       nodeAddressesOf(d.New, f, local),
	}
	if d.Base != nil {
		j.before = nodeAddressesOf(d.Base, f, local)
	}
	b := builder{Judge: j, family: f, serving: map[*plan.Port]allowed{}}
	for i := range d.Changes {
		b.change(d, &d.Changes[i])
	}
	if more != nil {
		b.doubt(more)
	}
	if d.Base != nil && d.Config && !j.now.equal(j.before) {
		for p := range d.New.All() {
			b.port(p, true)
		}
	}
	return j
}

// Idle reports whether no flow can be stale: nobody need read the table.
func (j *Judge) Idle() bool { return len(j.exact) == 0 && len(j.nodePorts) == 0 }

// Stale reports whether a flow is to be deleted.
func (j *Judge) Stale(f Flow) bool {
	to, ok := j.allowed(f.Destination)
	if !ok {
		return false
	}
	if _, ok := to[f.ReplySource]; ok {
		return false
	}
	// A flow that was not translated is right as long as there is nothing to translate
	// it to; it may even be somebody else's, now that the frontend is gone.
	return len(to) > 0 || f.translated()
}

// allowed returns the endpoints to which flows to dst may go on; ok is false if dst
// is none of the frontends in question.
func (j *Judge) allowed(dst netip.AddrPort) (to allowed, ok bool) {
	if to, ok = j.exact[dst]; ok {
		return to, true
	}
	to, ok = j.nodePorts[dst.Port()]
	switch here := j.now.has(dst.Addr()); {
	case ok && (here || j.before.has(dst.Addr())):
		if owner, _ := j.plan.Lookup(dst, corev1.ProtocolUDP); owner != nil {
			return nil, false // a frontend that is not in question, and beats the NodePort
		}
		if !here {
			to = nil
		}
		return to, true
	case j.full && j.plan.IsClusterIP(dst.Addr()):
		return nil, true // exact has all frontends, so the port is unused
	default:
		return nil, false
	}
}

// A builder fills a Judge.
type builder struct {
	*Judge
	family  corev1.IPFamily
	serving map[*plan.Port]allowed
}

func (b *builder) change(d *plan.Delta, c *plan.Change) {
	if c.Key.Protocol != corev1.ProtocolUDP || c.Key.Family != b.family {
		return
	}
	if !d.Full && len(c.Before) == 1 && c.After != nil && sameFlows(c.Before[0], c.After) {
		return
	}
	for _, p := range c.Before {
		b.port(p, false)
	}
	if c.After != nil {
		b.port(c.After, false)
	}
}

// sameFlows reports whether two versions of a port allow the same flows.
func sameFlows(p, q *plan.Port) bool {
	sameFrontend := func(f, g plan.Frontend) bool { return f.Kind == g.Kind && f.Addr == g.Addr && f.Port == g.Port }
	sameEndpoint := func(e, f *endpoints.Endpoint) bool { return e.Addr == f.Addr }
	return slices.EqualFunc(p.Frontends, q.Frontends, sameFrontend) && slices.EqualFunc(p.Serving, q.Serving, sameEndpoint)
}

// port puts the frontends of a version of a port in question. Who owns them now says
// the plan: another Service may have taken them over.
func (b *builder) port(p *plan.Port, nodePortsOnly bool) {
	if p.Protocol != corev1.ProtocolUDP || p.Family != b.family {
		return
	}
	for i := range p.Frontends {
		f := &p.Frontends[i]
		switch {
		case f.Kind == plan.NodePort:
			b.nodePort(f.Port)
		case !nodePortsOnly:
			b.address(netip.AddrPortFrom(f.Addr, f.Port))
		}
	}
}

// doubt puts frontends in question that may have been in place.
func (b *builder) doubt(d *doubts) {
	for at := range d.exact {
		b.address(at)
	}
	for port := range d.nodePorts {
		b.nodePort(port)
	}
}

func (b *builder) address(at netip.AddrPort) {
	owner, _ := b.plan.Lookup(at, corev1.ProtocolUDP)
	b.exact[at] = b.allow(owner)
}

func (b *builder) nodePort(port uint16) {
	owner, _ := b.plan.LookupNodePort(b.family, port, corev1.ProtocolUDP)
	b.nodePorts[port] = b.allow(owner)
}

func (b *builder) allow(p *plan.Port) allowed {
	if p == nil || len(p.Serving) == 0 {
		return nil
	}
	if to, ok := b.serving[p]; ok {
		return to
	}
	to := make(allowed, len(p.Serving))
	for _, e := range p.Serving {
		to[e.Addr] = struct{}{}
	}
	b.serving[p] = to
	return to
}
