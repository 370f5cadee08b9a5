package ipvs

import (
	"hash/fnv"
	"io"
	"net/netip"
	"slices"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A state is what is in place, as far as the Backend knows.
type state struct {
	ports    map[plan.Key]*program
	claims   map[site][]claim // most have one
	sites    map[site]want    // in place, those that are leaving included
	elements map[element]int  // by how many programs and sites want them
	servers  map[ServerKey]VirtualServer
	leaving  map[ServerKey]bool // servers that drain

	marks  map[markOwner]uint32
	owners map[uint32]markOwner
}

// A claim is a wish for a site, of the program that has it.
type claim struct {
	by   *program
	want *want
}

// before reports whether c has a site that both claim. That follows from the claims alone, never from the order in
// which they came: an exact address comes before a NodePort, and what is left of a port that could not be written yields to
// whoever the plan says owns the site now.
func (c claim) before(o claim) bool {
	switch {
	case c.want.nodePort != o.want.nodePort:
		return o.want.nodePort
	case c.by.held != o.by.held:
		return o.by.held
	default:
		return c.by.key.Compare(o.by.key) < 0
	}
}

// A markOwner is what a mark stands for: one pool of one port.
type markOwner struct {
	key  plan.Key
	pool plan.Pool
}

func newState() state {
	return state{
		ports: make(map[plan.Key]*program), claims: make(map[site][]claim), sites: make(map[site]want),
		elements: make(map[element]int), servers: make(map[ServerKey]VirtualServer), leaving: make(map[ServerKey]bool),
		marks: make(map[markOwner]uint32), owners: make(map[uint32]markOwner),
	}
}

// wanted returns what a site should be, nil if nobody wants it.
func (s *state) wanted(at site) *want {
	claims := s.claims[at]
	if len(claims) == 0 {
		return nil
	}
	first := claims[0]
	for _, c := range claims[1:] {
		if c.before(first) {
			first = c
		}
	}
	return first.want
}

// claim adds what a program wants.
func (s *state) claim(p *program) {
	for i := range p.wants {
		w := &p.wants[i]
		s.claims[w.site] = append(s.claims[w.site], claim{p, w})
	}
}

// unclaim takes back what a program wants.
func (s *state) unclaim(p *program) {
	for i := range p.wants {
		at := p.wants[i].site
		left := slices.DeleteFunc(s.claims[at], func(c claim) bool { return c.by == p })
		if s.claims[at] = left; len(left) == 0 {
			delete(s.claims, at)
		}
	}
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
	n := &node{opts: b.opts, local: others, plan: p, own: make(map[netip.Addr]bool), mark: b.mark}
	if len(others) > 0 {
		n.here = make(map[netip.Addr]bool, len(others))
	}
	for _, a := range others {
		n.own[a], n.here[a] = true, true
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
