package nftables

import (
	"iter"
	"time"
)

// An edit collects what a transaction does to one table, and in which order the
// kernel can take it: names before their users, elements last, removals after that.
type edit struct {
	t   *table
	l   *layout
	now time.Time

	create, replace bool
	boxes           []box   // new
	chains          []chain // new or changed, in the order in which they came
	chainAt         map[string]int
	goneChains      []string
	goneBoxes       []box
	removed, added  [][]element // the slices of the items: there can be very many
	needed          map[shared]bool
	counts          map[elementID]int
	countOrder      []elementID
	config          []element
	configSet       bool
	carried         []carried
	sums            map[string]sum // what is written of each box
}

func newEdit(t *table, l *layout, now time.Time) *edit {
	return &edit{t: t, l: l, now: now, chainAt: make(map[string]int), counts: make(map[elementID]int), needed: make(map[shared]bool), sums: make(map[string]sum)}
}

// take adds an item.
func (e *edit) take(i *item) {
	e.create = e.create || i.kind == createItem
	e.replace = e.replace || i.kind == replaceItem
	for _, b := range i.after.boxes {
		e.addBox(b)
	}
	for _, s := range i.after.shared {
		e.need(s)
	}
	for _, c := range i.after.chains {
		e.addChain(c)
	}
	e.drop(i.before, i.after)
	e.elements(i.before, i.after)
	e.carried = append(e.carried, i.carried...)
	if i.kind == baseItem || i.kind == createItem || i.kind == replaceItem {
		e.config, e.configSet = i.config, true
	}
}

func (e *edit) addBox(b box) {
	if _, ok := e.t.boxes[b.name]; !ok {
		e.boxes = append(e.boxes, b)
	}
}

func (e *edit) need(s shared) {
	if e.needed[s] {
		return
	}
	e.needed[s] = true
	if e.addChain(s.chain(e.t.family, e.l)) && s.kind == pickChain {
		e.added = append(e.added, []element{s.entry()})
	}
}

// addChain reports whether the chain has to be written.
func (e *edit) addChain(c chain) bool {
	if have, ok := e.t.chains[c.name]; ok && have == c.print() {
		return false
	}
	if at, ok := e.chainAt[c.name]; ok {
		e.chains[at] = c
		return true
	}
	e.chainAt[c.name] = len(e.chains)
	e.chains = append(e.chains, c)
	return true
}

// drop takes away the private chains and boxes that are in before but not in after.
func (e *edit) drop(before, after *program) {
	stays := make(map[string]bool)
	for _, c := range after.chains {
		stays[c.name] = true
	}
	for _, b := range after.boxes {
		stays[b.name] = true
	}
	for _, c := range before.chains {
		if !stays[c.name] {
			e.goneChains = append(e.goneChains, c.name)
		}
	}
	for _, b := range before.boxes {
		if !stays[b.name] {
			e.goneBoxes = append(e.goneBoxes, b)
		}
	}
}

func (e *edit) elements(before, after *program) {
	if len(before.elements) > 0 {
		e.removed = append(e.removed, before.elements)
	}
	if len(after.elements) > 0 {
		e.added = append(e.added, after.elements)
	}
	for _, el := range before.counted {
		e.count(el.id, -1)
	}
	for _, el := range after.counted {
		e.count(el.id, 1)
	}
	for _, id := range before.unowned {
		e.count(id, 0)
	}
}

func (e *edit) count(id elementID, n int) {
	if _, ok := e.counts[id]; !ok {
		e.countOrder = append(e.countOrder, id)
	}
	e.counts[id] += n
}

// elementsOnly reports whether the edit consists of elements that a batch can have.
func (e *edit) elementsOnly() bool {
	names := len(e.boxes) + len(e.chains) + len(e.goneChains) + len(e.goneBoxes)
	return !e.create && !e.replace && names == 0 && !hasRanges(e.removed) && !hasRanges(e.added)
}

// hasRanges reports whether an element is a mere range. The kernel has two of its own
// for one of these, and only nft knows which.
func hasRanges(lists [][]element) bool {
	for el := range all(lists) {
		switch el.id.box {
		case boxPodCIDRs, boxServiceCIDRs, boxNodePortAddresses:
			return true
		}
	}
	return false
}

func all(lists [][]element) iter.Seq[element] {
	return func(yield func(element) bool) {
		for _, list := range lists {
			for _, el := range list {
				if !yield(el) {
					return
				}
			}
		}
	}
}

// write puts the edits of all tables into one transaction.
func write(tx *transaction, edits []*edit) {
	for _, step := range []func(*edit, script){
		(*edit).writeTable, (*edit).writeNames, (*edit).writeRules,
		(*edit).writeRemovals, (*edit).writeAdditions, (*edit).writeDrops,
	} {
		for _, e := range edits {
			step(e, script{tx: tx, f: e.t.family, table: e.l.table})
		}
	}
}

func (e *edit) writeTable(s script) {
	if e.replace {
		s.tableItself(add) // deleting what is not there would fail
		s.tableItself(remove)
	}
	if e.create || e.replace {
		s.tableItself(add)
	}
}

func (e *edit) writeNames(s script) {
	for _, b := range e.boxes {
		s.box(add, b)
	}
	for _, c := range e.chains {
		if _, there := e.t.chains[c.name]; !there {
			s.chain(add, c)
		}
	}
}

func (e *edit) writeRules(s script) {
	for _, c := range e.chains {
		if _, there := e.t.chains[c.name]; there {
			s.chain(flush, c)
		}
		for _, r := range c.rules {
			s.rule(c.name, r)
		}
	}
}

func (e *edit) writeRemovals(s script) {
	stays := intersect(e.added, e.removed)
	for el := range all(e.removed) {
		if want, ok := stays[el.id]; !ok || want != el {
			e.writeElement(s, remove, el)
		}
	}
	for _, id := range e.countOrder {
		if wanted, there := e.t.counted[id.counted()]; there && wanted+e.counts[id] <= 0 {
			e.writeElement(s, remove, element{id: id})
		}
	}
}

func (e *edit) writeAdditions(s script) {
	there := intersect(e.removed, e.added)
	for el := range all(e.added) {
		if have, ok := there[el.id]; !ok || have != el {
			e.writeElement(s, add, el)
		}
	}
	for _, id := range e.countOrder {
		if _, there := e.t.counted[id.counted()]; !there && e.counts[id] > 0 {
			e.writeElement(s, add, element{id: id})
		}
	}
	for _, of := range e.carried {
		for _, c := range of.clients {
			s.line(add, of.box, clientText(c))
		}
	}
}

// intersect returns those of the elements whose ids others have, too.
func intersect(elements, others [][]element) map[elementID]element {
	if len(elements) == 0 || len(others) == 0 {
		return nil
	}
	ids := make(map[elementID]bool)
	for el := range all(others) {
		ids[el.id] = true
	}
	out := make(map[elementID]element)
	for el := range all(elements) {
		if ids[el.id] {
			out[el.id] = el
		}
	}
	return out
}

// writeElement leaves out the elements of boxes that go: they go with them.
func (e *edit) writeElement(s script, v verb, el element) {
	b, ok := e.boxOf(el.id.box)
	if !ok {
		return
	}
	s.element(v, b, el)
	if v == add {
		e.sums[b.name] = e.sums[b.name].add(e.t.sum(el))
	} else {
		e.sums[b.name] = e.sums[b.name].less(e.t.sum(el))
	}
}

func (e *edit) boxOf(name string) (box, bool) {
	for _, gone := range e.goneBoxes {
		if gone.name == name {
			return box{}, false
		}
	}
	if b, ok := e.t.boxes[name]; ok {
		return b, true
	}
	for _, b := range e.boxes {
		if b.name == name {
			return b, true
		}
	}
	return box{}, false
}

// writeDrops flushes the chains that go, deletes the boxes, and leaves the chains
// for later: before Linux 6.2 an element holds its chain until after the commit.
func (e *edit) writeDrops(s script) {
	for _, name := range e.goneChains {
		s.chain(flush, chain{name: name})
	}
	for _, b := range e.goneBoxes {
		s.box(remove, b)
	}
}

// commit records what the transaction did.
func (e *edit) commit() {
	t := e.t
	for _, b := range e.boxes {
		t.boxes[b.name] = b
	}
	for name, written := range e.sums {
		t.sums[name] = t.sums[name].add(written)
	}
	for _, b := range e.goneBoxes {
		delete(t.boxes, b.name)
		delete(t.sums, b.name)
	}
	for _, c := range e.chains {
		t.chains[c.name] = c.print()
		delete(t.dying, c.name)
	}
	for _, name := range e.goneChains {
		delete(t.chains, name)
		t.dying[name] = e.now
	}
	for id, n := range e.counts {
		t.count(id, n)
	}
	if e.configSet {
		t.config = e.config
	}
}

func (t *table) count(id elementID, n int) {
	k := id.counted()
	if wanted := t.counted[k] + n; wanted > 0 {
		t.counted[k] = wanted
	} else {
		delete(t.counted, k)
	}
}
