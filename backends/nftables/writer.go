package nftables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vipkit/vipkit/proxy/plan"
)

// batchElements is how many elements one transaction has at most, if it can be cut between
// Service ports: the memory of nft grows with it.
const batchElements = 100_000

// A writer brings items into the kernel.
type writer struct {
	*Backend
	ctx context.Context
	now time.Time
	bad map[plan.Key]error
}

// writeAll writes items in as few transactions as possible.
func (w *writer) writeAll(items []*item) error {
	for len(items) > 0 {
		n := batch(items)
		if err := w.write(items[:n]); err != nil {
			return err
		}
		items = items[n:]
	}
	return w.allBroken()
}

// batch returns how many of the items go into the next transaction. A replaced
// table comes back as a whole; an element that moves from one port to another does not, but
// within Changes the removal and the addition need not be neighbours: those are one batch too.
func batch(items []*item) int {
	n := 0
	for at, i := range items {
		if i.kind == replaceItem || len(i.before.elements) > 0 && i.kind == portItem {
			return len(items)
		}
		if n += len(i.after.elements); n > batchElements && at > 0 {
			return at
		}
	}
	return len(items)
}

// write writes items in one transaction, or in several if the kernel refuses it.
func (w *writer) write(items []*item) error {
	items = w.writable(items)
	if len(items) == 0 {
		return nil
	}
	before, errBefore := w.kernel.generation()
	err := w.commit(items)
	after, errAfter := w.kernel.generation()
	if err == nil {
		w.noteCommit(before, after)
		return nil
	}
	if before != after || errors.Join(errBefore, errAfter, w.ctx.Err()) != nil {
		// Somebody committed meanwhile, perhaps it was us: only reading tells.
		return fmt.Errorf("nftables: sync: %w", err)
	}
	if len(items) == 1 {
		return w.giveUp(items[0], err)
	}
	if parts := cohesive(items); len(parts) > 1 {
		return w.writeHalves(parts)
	}
	return w.giveUpAll(items, err)
}

// noteCommit keeps what is verified so if nobody else committed.
func (w *writer) noteCommit(before, after uint32) {
	if w.verified == before && after == before+1 {
		w.verified = after
	}
}

func (w *writer) writeHalves(parts [][]*item) error {
	half := len(parts) / 2
	for _, side := range [][][]*item{parts[:half], parts[half:]} {
		var items []*item
		for _, p := range side {
			items = append(items, p...)
		}
		if err := w.write(items); err != nil {
			return err
		}
	}
	return nil
}

// writable leaves out the ports of a family that cannot be programmed.
func (w *writer) writable(items []*item) []*item {
	var ok []*item
	for _, i := range items {
		if i.table.broken == nil {
			ok = append(ok, i)
		} else if i.kind == portItem {
			w.bad[i.key] = i.table.broken
		}
	}
	return ok
}

func (w *writer) giveUpAll(items []*item, err error) error {
	var errs []error
	for _, i := range items {
		errs = append(errs, w.giveUp(i, err))
	}
	return errors.Join(errs...)
}

// giveUp takes down that an item cannot be written.
func (w *writer) giveUp(i *item, err error) error {
	switch i.kind {
	case portItem:
		w.bad[i.key] = err
	case commonItem: // a Service port brings the chains that it needs
	case staleItem:
		return fmt.Errorf("nftables: sync: remove what is not ours to keep: %w", err)
	case baseItem, createItem, replaceItem:
		i.table.broken = fmt.Errorf("family %s: %w", i.table.ip, err)
	}
	return nil
}

func (w *writer) allBroken() error {
	var errs []error
	for _, t := range w.tables {
		if t.broken == nil {
			return nil
		}
		errs = append(errs, t.broken)
	}
	return fmt.Errorf("nftables: sync: %w", errors.Join(errs...))
}

// commit writes items in one transaction, all or nothing.
func (w *writer) commit(items []*item) error {
	edits := make([]*edit, 0, len(w.tables))
	for _, t := range w.tables {
		e := newEdit(t, w.layout, w.now)
		for _, i := range items {
			if i.table == t {
				e.take(i)
			}
		}
		edits = append(edits, e)
	}
	tx := &transaction{}
	write(tx, edits)
	if err := w.run(tx); err != nil {
		return err
	}
	for _, e := range edits {
		e.commit()
	}
	w.remember(items)
	return nil
}

func (w *writer) run(tx *transaction) error {
	if tx.statements == 0 {
		return nil
	}
	text, err := tx.bytes()
	if err != nil {
		return err
	}
	if err := w.runner.run(w.ctx, text); err != nil {
		return err
	}
	w.last.Statements += tx.statements
	w.last.Transactions++
	return nil
}

func (w *writer) remember(items []*item) {
	for _, i := range items {
		if i.kind != portItem {
			continue
		}
		if len(i.before.elements)+len(i.after.elements) > 0 {
			w.last.Changes++
		}
		if i.next == nil {
			delete(w.ports, i.key)
		} else {
			w.ports[i.key] = i.next
		}
	}
}

// chainRest is how long a flushed chain is left before it is deleted. Kernels before
// 6.2 count an element's reference to a chain until a moment after the commit
// that removes the element.
const chainRest = time.Second

// bury deletes chains that were flushed long enough ago. It is no part of the
// plan, so what fails is tried again later.
func (w *writer) bury() {
	for _, t := range w.tables {
		var due []string
		for name, since := range t.dying {
			if w.now.Sub(since) >= chainRest {
				due = append(due, name)
			}
		}
		slices.Sort(due)
		if w.deleteChains(t, due...) == nil {
			continue
		}
		for _, name := range due { // one busy chain must not keep the others
			if w.deleteChains(t, name) != nil {
				t.dying[name] = w.now
			}
		}
	}
}

// deleteChains deletes chains in one transaction. One that is gone already is none to
// try again.
func (w *writer) deleteChains(t *table, names ...string) error {
	tx := &transaction{}
	for _, name := range names {
		script{tx: tx, f: t.family, table: w.layout.table}.chain(remove, chain{name: name})
	}
	err := w.run(tx)
	if err != nil && (len(names) > 1 || !errors.Is(err, errNotFound)) {
		return err
	}
	for _, name := range names {
		delete(t.dying, name)
	}
	return nil
}

// cohesive returns items in groups: those between which an element moves must be
// written together.
func cohesive(items []*item) [][]*item {
	type place struct {
		table *table
		id    elementID
	}
	leader := make(map[*item]*item, len(items))
	find := func(i *item) *item {
		for leader[i] != nil {
			i = leader[i]
		}
		return i
	}
	leaves := make(map[place]*item)
	for _, i := range items {
		for _, el := range i.before.elements {
			leaves[place{i.table, el.id}] = i
		}
	}
	for _, i := range items {
		for _, el := range i.after.elements {
			from := leaves[place{i.table, el.id}]
			if from == nil {
				continue
			}
			if a, b := find(from), find(i); a != b {
				leader[b] = a
			}
		}
	}
	return groups(items, find)
}

func groups(items []*item, find func(*item) *item) [][]*item {
	at := make(map[*item]int)
	var out [][]*item
	for _, i := range items {
		l := find(i)
		n, ok := at[l]
		if !ok {
			n = len(out)
			at[l] = n
			out = append(out, nil)
		}
		out[n] = append(out[n], i)
	}
	return out
}
