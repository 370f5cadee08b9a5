package nftables

// Shared chains are made with the table for more sizes of pools than are in use. A rule that
// names a map walks it when it is added, which is best done while the map is empty, and a Service port
// that only grows or shrinks then finds its chain.
const (
	leastMargin = 16 // sizes up to this one are always made
	mostMargin  = 64 // larger ones only as they are needed
	marginStep  = 16 // sizes in one item: see the requirements in the package documentation
)

// margin returns the shared chains that are made in advance for the Service ports of a new
// table: wherever they choose an endpoint from, all sizes up to one that leaves the largest pool room to
// double.
func (t *table) margin(ports []*item) []*item {
	var kinds []shared
	largest := make(map[shared]int)
	for _, p := range ports {
		if p.table != t {
			continue
		}
		for _, s := range p.after.shared {
			if s.kind != pickChain {
				continue
			}
			n := s.size
			s.size = 0
			if largest[s] == 0 {
				kinds = append(kinds, s)
			}
			largest[s] = max(largest[s], n)
		}
	}
	var items []*item
	for _, s := range kinds {
		items = append(items, t.sizes(s, min(max(2*largest[s], leastMargin), mostMargin))...)
	}
	return items
}

// sizes returns items with a shared chain for every size up to most.
func (t *table) sizes(s shared, most int) []*item {
	var items []*item
	for n := range most {
		if n%marginStep == 0 {
			items = append(items, &item{table: t, kind: commonItem, before: &program{}, after: &program{}})
		}
		s.size = n + 1
		after := items[len(items)-1].after
		after.shared = append(after.shared, s)
	}
	return items
}
