package nftables

import (
	"context"

	"github.com/vipkit/vipkit/proxy/plan"
)

// suspect records that a port was refused alone.
func (b *Backend) suspect(k plan.Key) {
	if b.suspects == nil {
		b.suspects = make(map[plan.Key]bool)
	}
	b.suspects[k] = true
}

// noteLeft records what stays in the kernel of the ports that an adoption found and could
// not write: nothing else remembers it, and it is in the way of whoever has its addresses next.
func (b *Backend) noteLeft(items []*item, refused map[plan.Key]error) {
	for _, i := range items {
		if i.kind != portItem {
			continue
		}
		if refused[i.key] == nil {
			delete(b.left, i.key)
		} else if i.found != nil {
			b.left[i.key] = i.table.present(i.found)
		}
	}
}

// present returns a program without the chains and boxes that are not there.
func (t *table) present(p *program) *program {
	out := &program{elements: p.elements}
	for _, c := range p.chains {
		if _, ok := t.chains[c.name]; ok {
			out.chains = append(out.chains, c)
		}
	}
	for _, b := range p.boxes {
		if _, ok := t.boxes[b.name]; ok {
			out.boxes = append(out.boxes, b)
		}
	}
	return out
}

// stillKnown reports whether the tables are what is remembered, now that the kernel has
// refused some Service ports. If somebody else removed or replaced what their statements name,
// trying again would fail for ever: then the next Sync has to read the tables.
func (b *Backend) stillKnown(ctx context.Context, items []*item, refused map[plan.Key]error) bool {
	now, err := b.kernel.generation()
	if err != nil {
		return false
	}
	if now == b.verified {
		return true // nobody else committed: it is the Service
	}
	if changed, err := b.Check(ctx); err != nil || len(changed) > 0 {
		return false
	}
	for _, i := range items {
		if refused[i.key] != nil && i.kind == portItem && !b.inPlace(i) {
			return false
		}
	}
	return true
}

// inPlace reports whether what an item changes is as it is remembered: what it removes is
// there, and what it adds is not.
func (b *Backend) inPlace(i *item) bool {
	want := make(map[elementID]value)
	for _, el := range i.before.elements {
		want[el.id] = el.value
	}
	for _, id := range i.places() {
		known, ok := i.table.boxes[id.box]
		if !ok {
			continue // comes with the item
		}
		v, wanted := want[id]
		have, found, err := b.kernel.element(i.table.family, b.opts.Name, known, id.key)
		if err != nil || found != wanted || found && have.value != v {
			return false
		}
	}
	return true
}

// places returns the keys of all elements that an item removes or adds.
func (i *item) places() []elementID {
	var ids []elementID
	for _, p := range []*program{i.before, i.after} {
		for _, el := range p.elements {
			ids = append(ids, el.id)
		}
	}
	return ids
}
