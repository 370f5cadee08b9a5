package nftables

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

// adopt reads both tables and returns what has to change so that they equal p.
// It forgets everything that was remembered, also if they cannot be read.
func (b *Backend) adopt(p *plan.Plan) ([]*item, error) {
	old := b.ports
	b.ports, b.left = make(map[plan.Key]*portState), make(map[plan.Key]*program)
	now, _ := b.kernel.generation() // 0, which never is one, on an error
	b.read, b.verified, b.lap.left = 0, 0, nil
	var bases, ports, rest []*item
	adoptions := make(map[*table]*adoption)
	for n, t := range b.tables {
		t = newTable(t.family)
		b.tables[n] = t
		a := &adoption{b: b, table: t}
		adoptions[t] = a
		kind, err := a.read()
		if err != nil {
			return nil, err
		}
		bases = append(bases, a.base(kind, p))
	}
	for port := range p.All() {
		t := b.tableOf(port.Family)
		if t == nil {
			continue
		}
		if port = b.feasible(port, old[port.Key], p); port != nil {
			ports = append(ports, adoptions[t].port(port))
		}
	}
	for n, t := range b.tables {
		if bases[n].kind != baseItem {
			bases = append(bases, t.margin(ports)...)
		}
		rest = append(rest, adoptions[t].stale())
	}
	b.read, b.verified = now, now
	return slices.Concat(bases, ports, rest), nil
}

// An adoption compares one table in the kernel with what it should be.
type adoption struct {
	b       *Backend
	table   *table
	found   *contents
	have    map[elementID]element // in the kernel and not yet claimed
	claimed map[string]bool       // chains and boxes
	clients map[string][]client   // of a table that is replaced, by box
}

// read returns what kind of item the table needs. One with elements that cannot be ours is
// replaced: that needs no knowledge of it. One that could not be read is left as it is: it may be right.
func (a *adoption) read() (itemKind, error) {
	a.claimed = make(map[string]bool)
	a.have, a.clients = make(map[elementID]element), make(map[string][]client)
	found, err := a.b.kernel.read(a.table.family, a.b.opts.Name)
	if err != nil {
		return 0, err
	}
	if found == nil {
		a.found = &contents{}
		return createItem, nil
	}
	same := a.sameLayout(found)
	if same {
		err = a.load(found)
	}
	switch {
	case err != nil && !errors.Is(err, errForeign):
		return 0, err
	case err != nil || !same:
		a.found, a.have = &contents{}, make(map[elementID]element)
		*a.table = *newTable(a.table.family) // nothing of what was read so far stays
		a.carry(found)
		return replaceItem, nil
	default:
		return baseItem, nil
	}
}

// sameLayout reports whether the table was made by this version with these options, and
// every box and base chain is still there.
func (a *adoption) sameLayout(found *contents) bool {
	if _, ok := found.chains[a.table.marker(a.b.layout)]; !ok {
		return false
	}
	for _, b := range boxes() {
		if info, ok := found.boxes[b.name]; !ok || info != a.table.info(b) {
			return false
		}
	}
	for _, c := range a.table.baseChains(a.b.layout) {
		have, _, _ := strings.Cut(found.chains[c.name], " ")
		want, _, _ := strings.Cut(c.print(), " ")
		if have != want {
			return false
		}
	}
	return true
}

// load takes over chains, boxes and elements.
func (a *adoption) load(found *contents) error {
	t := a.table
	a.found = found
	for _, b := range boxes() {
		if err := a.loadElements(b); err != nil {
			return err
		}
		t.boxes[b.name] = b
	}
	for name := range found.boxes {
		if err := a.loadPrivate(name); err != nil {
			return err
		}
	}
	maps.Copy(t.chains, found.chains)
	for name := range found.chains {
		if s, ok := parseShared(name); ok && s.kind == pickChain && !a.leads(s) {
			t.chains[name] = unled // no rule has this comment, so whoever needs it writes both
		}
	}
	for id := range a.have {
		if isCounted(id.box) {
			t.counted[id.counted()] = 0 // there, and wanted by nobody so far
		}
	}
	return nil
}

// unled stands for the rules of a chain that no element leads to.
const unled = "unled"

// leads reports whether the element that leads to the chain of a pick is in the kernel and not
// claimed by the chain already.
func (a *adoption) leads(s shared) bool {
	want := s.entry()
	have, ok := a.have[want.id]
	return ok && have.value == want.value
}

// loadPrivate takes over a box of affinity. What the packets have written stays theirs.
func (a *adoption) loadPrivate(name string) error {
	b, ok := privateBox(name, a.b.layout.affinityClients)
	if !ok {
		return nil
	}
	a.table.boxes[name] = b
	if b.dynamic {
		return nil
	}
	return a.loadElements(b)
}

func isCounted(box string) bool { return box == boxClusterIPs }

func (a *adoption) loadElements(b box) error {
	elements, err := a.b.kernel.elements(a.table.family, a.b.opts.Name, b)
	for _, el := range elements {
		if _, twice := a.have[el.id]; !twice { // a dump can repeat itself
			a.have[el.id] = el
			a.table.sums[b.name] = a.table.sums[b.name].add(a.table.sum(el))
		}
	}
	return err
}

func (a *adoption) base(kind itemKind, p *plan.Plan) *item {
	i := &item{table: a.table, kind: kind, before: &program{}, after: a.table.base(a.b.layout, p)}
	i.config = i.after.elements
	a.claim(i)
	return i
}

// port returns the change of one Service port.
func (a *adoption) port(p *plan.Port) *item {
	comp := compiler{layout: a.b.layout, f: a.table.family}
	i := &item{table: a.table, key: p.Key, before: &program{}, next: assignSlots(a.slots(p), p)}
	i.after = comp.compile(i.next)
	i.found = &program{chains: i.after.chains, boxes: i.after.boxes}
	i.carried = a.carriedBy(i.after)
	a.claim(i)
	return i
}

// claim finds what the kernel has of the item.
func (a *adoption) claim(i *item) {
	if len(a.have) > 0 {
		a.claimElements(i)
	}
	if i.found != nil {
		i.found.elements = i.before.elements
	}
	for _, c := range i.after.chains {
		a.claimed[c.name] = true
	}
	for _, b := range i.after.boxes {
		a.claimed[b.name] = true
	}
	for _, s := range i.after.shared {
		a.claimed[s.name()] = true
		if s.kind == pickChain && a.leads(s) {
			delete(a.have, s.entry().id)
		}
	}
	i.trim()
}

func (a *adoption) claimElements(i *item) {
	for _, el := range i.after.elements {
		if have, ok := a.have[el.id]; ok {
			i.before.elements = append(i.before.elements, have)
			delete(a.have, el.id)
		}
	}
}

// slots reads from the elements which endpoint has which slot, so that an adopted
// Service port keeps them.
func (a *adoption) slots(p *plan.Port) *portState {
	if p.AffinityTimeout > 0 {
		return a.affinitySlots(namesOf(p.Key))
	}
	s := &portState{}
	proto := protocolOf(p.Protocol)
	for _, fe := range p.Frontends {
		id := elementID{boxEndpoints(proto, fe.Kind == plan.NodePort), key{addr: fe.Addr, port: fe.Port}}
		if s.cluster == nil { // all frontends have the same slots: the first that has any tells
			s.cluster = a.slotsFrom(id, 0)
		}
		if s.local == nil {
			s.local = a.slotsFrom(id, localSlots)
		}
	}
	return s
}

// affinitySlots reads slots and ids of a port with affinity: a slot names the id, and
// the comment of the id the endpoint.
func (a *adoption) affinitySlots(n affinityNames) *portState {
	s := &portState{ids: make(map[netip.AddrPort]uint32)}
	read := func(slots, alive string) (out []*endpoints.Endpoint) {
		for at := (elementID{box: slots}); ; at.key.n++ {
			id, ok := n.idOfFresh(a.have[at].value.verdict)
			dst, err := netip.ParseAddrPort(a.have[elementID{box: alive, key: key{n: id}}].comment)
			if !ok || err != nil {
				return out
			}
			out = append(out, addressOnly(dst))
			s.ids[dst] = id
		}
	}
	s.cluster = read(string(n)+suffixSlotsCluster, string(n)+suffixAliveCluster)
	s.local = read(string(n)+suffixSlotsLocal, string(n)+suffixAliveLocal)
	return s
}

func (a *adoption) slotsFrom(id elementID, first uint32) []*endpoints.Endpoint {
	var slots []*endpoints.Endpoint
	for id.key.n = first; id.key.n < first+maxPool; id.key.n++ {
		el, ok := a.have[id]
		if !ok {
			break
		}
		slots = append(slots, addressOnly(el.value.dst))
	}
	return slots
}

// addressOnly is an endpoint of which nothing else is known.
func addressOnly(dst netip.AddrPort) *endpoints.Endpoint { return &endpoints.Endpoint{Addr: dst} }

// stale returns the removal of everything that nothing has claimed.
func (a *adoption) stale() *item {
	gone := &program{}
	for name := range a.found.chains {
		if !a.claimed[name] && !a.isShared(name) {
			a.removeChain(gone, name)
		}
	}
	for id, el := range a.have {
		if isCounted(id.box) {
			gone.unowned = append(gone.unowned, id)
		} else {
			gone.elements = append(gone.elements, el)
		}
	}
	for name, info := range a.found.boxes {
		if !a.claimed[name] {
			gone.boxes = append(gone.boxes, foreignBox(name, info))
		}
	}
	return &item{table: a.table, kind: staleItem, before: gone, after: &program{}}
}

// isShared reports whether a chain is what its name says: one that Service ports
// needed once and may need again. It then keeps the element that leads to it.
func (a *adoption) isShared(name string) bool {
	s, ok := parseShared(name)
	if !ok || s.chain(a.table.family, a.b.layout).print() != a.found.chains[name] {
		return false
	}
	if s.kind == pickChain {
		if !a.leads(s) {
			return false
		}
		delete(a.have, s.entry().id)
	}
	return true
}

// removeChain takes a chain away: one that is empty already was flushed by an
// earlier instance and only waits for its deletion.
func (a *adoption) removeChain(gone *program, name string) {
	if a.found.chains[name] == "" {
		a.table.dying[name] = time.Time{}
		delete(a.table.chains, name)
		return
	}
	gone.chains = append(gone.chains, chain{name: name})
}

func foreignBox(name string, info boxInfo) box {
	b := box{name: name}
	if info.isMap {
		b.value = verdictValue
	}
	return b
}

// trim leaves in an item only the elements that differ.
func (i *item) trim() {
	if len(i.before.elements) == 0 {
		return
	}
	same := make(map[elementID]bool)
	before := make(map[elementID]element, len(i.before.elements))
	for _, el := range i.before.elements {
		before[el.id] = el
	}
	i.after.elements = without(i.after.elements, func(el element) bool {
		have, ok := before[el.id]
		same[el.id] = ok && have == el
		return same[el.id]
	})
	i.before.elements = without(i.before.elements, func(el element) bool { return same[el.id] })
}

// without returns the elements for which drop is false, in a slice of its own.
func without(in []element, drop func(element) bool) []element {
	out := make([]element, 0, len(in))
	for _, el := range in {
		if !drop(el) {
			out = append(out, el)
		}
	}
	return out
}
