package nftables

import "slices"

// Sizes of transactions. While the kernel commits one, nobody else can change nftables, and
// nft and the kernel hold all of it in memory.
const (
	// fewElements is what is written in one transaction by nft, whatever else is in it.
	fewElements = 1_000

	// pieceElements is how many elements one transaction has at most, if it can be cut between
	// Service ports.
	pieceElements = 20_000

	// removedRanges is how many source ranges one transaction removes, if it can be cut between Service ports. The
	// kernel takes time for each that grows with their number: some 10 ms among 8,000.
	removedRanges = 20
)

// transactions cuts items into transactions. What removes many source ranges comes last, in small ones:
// other programs commit in between, and other Service ports do not wait.
//
// Where an adoption cleans up as well, the order of removals matters more.
func (w *writer) transactions(items []*item) [][]*item {
	if rangesRemoved(items) <= removedRanges || contains(items, replaceItem) || contains(items, staleItem) {
		return w.pieces(items)
	}
	var rest, slow []*item
	var out [][]*item
	n := 0
	for _, group := range cohesive(items) {
		removed := rangesRemoved(group)
		if removed == 0 {
			rest = append(rest, group...)
			continue
		}
		if n += removed; n > removedRanges && len(slow) > 0 {
			out, slow, n = append(out, slow), nil, removed
		}
		slow = append(slow, group...)
	}
	return slices.Concat(w.pieces(rest), append(out, slow))
}

// rangesRemoved returns how many source ranges go with items, at most.
func rangesRemoved(items []*item) (n int) {
	for _, i := range items {
		for _, el := range i.before.elements {
			if el.id.box == boxAllowed || el.id.box == boxAllowedPorts {
				n++
			}
		}
	}
	return n
}

// pieces cuts items into transactions. One piece has everything if a table comes back in
// another layout, which must happen at once, or if little is to be written.
//
// Otherwise names come first, those that all tables need and the shared chains of the
// Service ports: nothing leads to them yet. Then follow the Service ports, which with few exceptions are
// elements only.
func (w *writer) pieces(items []*item) [][]*item {
	names, ports := split(items)
	if count(ports) <= fewElements || contains(names, replaceItem) {
		return [][]*item{items}
	}
	out := [][]*item{append(names, w.shared(ports)...)}
	if !separate(ports) {
		return append(out, ports)
	}
	var plain, private []*item
	for _, i := range ports {
		if len(i.after.chains)+len(i.after.boxes) > 0 {
			private = append(private, i)
		} else {
			plain = append(plain, i)
		}
	}
	return append(append(out, chunks(plain)...), chunks(private)...)
}

// split returns the items before the first Service port, and the rest.
func split(items []*item) (names, rest []*item) {
	n := 0
	for n < len(items) && items[n].kind != portItem && items[n].kind != staleItem {
		n++
	}
	return items[:n:n], items[n:]
}

func contains(items []*item, kind itemKind) bool {
	for _, i := range items {
		if i.kind == kind {
			return true
		}
	}
	return false
}

func count(items []*item) (n int) {
	for _, i := range items {
		n += len(i.after.elements)
	}
	return n
}

// separate reports whether every item can be in a transaction of its own. An element
// that moves from one Service port to another leaves and comes in one transaction, and what nobody
// wants any more goes last.
func separate(items []*item) bool {
	for _, i := range items {
		if len(i.before.elements) > 0 || i.kind == staleItem && !i.before.empty() {
			return false
		}
	}
	return true
}

func (p *program) empty() bool {
	return len(p.chains)+len(p.boxes)+len(p.elements)+len(p.counted)+len(p.unowned) == 0
}

// chunks cuts items where the number of elements is reached.
func chunks(items []*item) [][]*item {
	var out [][]*item
	start, n := 0, 0
	for at, i := range items {
		if n += len(i.after.elements); n > pieceElements && at > start {
			out = append(out, items[start:at])
			start, n = at, len(i.after.elements)
		}
	}
	return append(out, items[start:])
}

// shared returns items with the shared chains that Service ports need.
func (w *writer) shared(ports []*item) []*item {
	var out []*item
	seen := make(map[*table]map[shared]bool)
	for _, p := range ports {
		for _, s := range p.after.shared {
			if seen[p.table] == nil {
				seen[p.table] = make(map[shared]bool)
			}
			if seen[p.table][s] {
				continue
			}
			seen[p.table][s] = true
			out = append(out, &item{table: p.table, kind: commonItem, before: &program{}, after: &program{shared: []shared{s}}})
		}
	}
	return out
}
