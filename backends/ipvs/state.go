package ipvs

import (
	"hash/fnv"
	"io"
	"net/netip"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A state is what is in place, as far as the Backend knows.
type state struct {
	ports    map[plan.Key]*program
	claims   map[site]claim
	sites    map[site]want   // in place, those that are leaving included
	elements map[element]int // by how many programs and sites want them
	servers  map[ServerKey]VirtualServer
	leaving  map[ServerKey]bool // servers that drain

	marks  map[markOwner]uint32
	owners map[uint32]markOwner
}

// A claim is who wants a site: an exact address comes before a NodePort.
type claim struct {
	exact, nodePort *want
}

func (c claim) wanted() *want {
	if c.exact != nil {
		return c.exact
	}
	return c.nodePort
}

// A markOwner is what a mark stands for: one pool of one port.
type markOwner struct {
	key  plan.Key
	pool plan.Pool
}

func newState() state {
	return state{
		ports: make(map[plan.Key]*program), claims: make(map[site]claim), sites: make(map[site]want),
		elements: make(map[element]int), servers: make(map[ServerKey]VirtualServer), leaving: make(map[ServerKey]bool),
		marks: make(map[markOwner]uint32), owners: make(map[uint32]markOwner),
	}
}

// claim sets or removes the want of a site.
func (s *state) claim(at site, nodePort bool, w *want) {
	c := s.claims[at]
	if nodePort {
		c.nodePort = w
	} else {
		c.exact = w
	}
	if c == (claim{}) {
		delete(s.claims, at)
		return
	}
	s.claims[at] = c
}

// mark returns the mark of a pool, a new one if it has none. Which one a pool gets depends on
// its name, so that it is most likely the same again in another process.
func (b *Backend) mark(k plan.Key, pool plan.Pool) uint32 {
	owner := markOwner{k, pool}
	if m, ok := b.marks[owner]; ok {
		return m
	}
	h := fnv.New32a()
	for _, s := range []string{k.Namespace, k.Name, k.Port, string(k.Protocol), string(k.Family), pool.String()} {
		_, _ = io.WriteString(h, s+"\x00") // never fails
	}
	m := b.spread(h.Sum32())
	for n := h.Sum32() + 1; b.taken(m); n++ {
		m = b.spread(n)
	}
	b.take(owner, m)
	return m
}

func (b *Backend) take(owner markOwner, m uint32) { b.marks[owner], b.owners[m] = m, owner }

func (b *Backend) taken(m uint32) bool {
	_, taken := b.owners[m]
	return taken
}

// spread turns a number into a mark of ours: without the bit that asks for masquerading.
func (b *Backend) spread(n uint32) uint32 {
	return b.opts.MarkBase | n&markRange&^b.opts.MasqueradeMark
}

// isOurs reports whether a mark is in the range that we own.
func (b *Backend) isOurs(mark uint32) bool { return mark != 0 && mark&^markRange == b.opts.MarkBase }

// free gives back a mark once nothing has it any more.
func (b *Backend) free(mark uint32) {
	delete(b.marks, b.owners[mark])
	delete(b.owners, mark)
}

// newNode returns what programs for a plan depend on.
func (b *Backend) newNode(p *plan.Plan, others []netip.Addr) *node {
	cfg := p.Config()
	n := &node{opts: b.opts, plan: p, own: make(map[netip.Addr]bool), mark: b.mark}
	if len(others) > 0 {
		n.here = make(map[netip.Addr]bool, len(others))
	}
	for _, a := range others {
		n.own[a], n.here[a] = true, true
		if !a.IsLoopback() && !a.IsLinkLocalUnicast() {
			n.local = append(n.local, a)
		}
	}
	for _, a := range cfg.Node.Addresses {
		n.own[a] = true
	}
	return n
}

// source returns the address with which the node dials a: the primary one of those that
// this machine has. The kernel takes no others; the zero value lets it choose.
func (n *node) source(a netip.Addr) netip.Addr {
	for _, own := range n.plan.Config().Node.Addresses {
		if own.Is4() == a.Is4() && (n.here == nil || n.here[own]) {
			return own
		}
	}
	return netip.Addr{}
}
