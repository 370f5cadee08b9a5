package nftables

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A writer brings items into the kernel.
type writer struct {
	b   *Backend
	now time.Time
	bad map[plan.Key]error

	// direct is nil if elements have to go through nft.
	direct sender
	sent   bool // the last transaction was a batch, not a run of nft

	refusals int // transactions that the kernel has refused
}

// maxRefusals is how many refused transactions one Sync spends on finding the Service ports that are
// to blame. To find one of n takes the logarithm of n; if nft refuses everything, trying
// each port alone would only take time.
const maxRefusals = 64

// writeAll writes items in as few transactions as possible: in one if there is not much to
// write, otherwise in pieces that are complete for their Service ports.
func (w *writer) writeAll(ctx context.Context, items []*item) error {
	for _, piece := range w.transactions(items) {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("nftables: sync: %w", err)
		}
		if err := w.write(ctx, piece); err != nil {
			return err
		}
	}
	return w.allBroken()
}

// write writes items in one transaction, or in several if the kernel refuses it.
func (w *writer) write(ctx context.Context, items []*item) error {
	items = w.writable(items)
	if len(items) == 0 {
		return nil
	}
	err := w.commit(ctx, items)
	if err == nil {
		return nil
	}
	if isUnknown(err) || ctx.Err() != nil {
		return fmt.Errorf("nftables: sync: %w", err)
	}
	w.refusals++
	if len(items) == 1 && w.sent {
		return w.retry(ctx, items[0], err)
	}
	if len(items) == 1 {
		return w.giveUp(items[0], err)
	}
	parts := cohesive(items)
	if len(parts) > 1 && w.refusals < maxRefusals {
		return w.writeSides(ctx, parts)
	}
	return w.giveUpAll(items, err)
}

// noteCommit keeps what is verified or read so if nobody else committed.
func (w *writer) noteCommit(before, after uint32) {
	for _, known := range []*uint32{&w.b.verified, &w.b.read, &w.b.lap.generation} {
		if before != 0 && *known == before && after == before+1 {
			*known = after
		}
	}
}

// retry asks nft about an item that the kernel has refused in a batch: nft has the last word,
// and says more about the reason. If it succeeds, batches are not to be trusted.
func (w *writer) retry(ctx context.Context, i *item, refusal error) error {
	direct := w.direct
	w.direct = nil
	if err := w.write(ctx, []*item{i}); err != nil {
		return err
	}
	if w.refused(i) {
		w.direct = direct
		return nil
	}
	w.b.noBatches = fmt.Errorf("nftables: batch refused that nft could write: %w", refusal)
	return nil
}

// refused reports whether an item could not be written.
func (w *writer) refused(i *item) bool {
	_, bad := w.bad[i.key]
	return bad || i.table.broken != nil
}

func (w *writer) writeSides(ctx context.Context, parts [][]*item) error {
	first, second := w.sides(parts)
	for _, side := range [][][]*item{first, second} {
		if err := w.write(ctx, slices.Concat(side...)); err != nil {
			return err
		}
	}
	return nil
}

// sides cuts groups in two. Those with a Service port that was refused alone by an earlier Sync come
// last, so that they do not use up again what finding others takes.
func (w *writer) sides(parts [][]*item) (first, second [][]*item) {
	for _, p := range parts {
		if slices.ContainsFunc(p, w.isSuspect) {
			second = append(second, p)
		} else {
			first = append(first, p)
		}
	}
	if len(first) > 0 && len(second) > 0 {
		return first, second
	}
	half := len(parts) / 2
	return parts[:half], parts[half:]
}

func (w *writer) isSuspect(i *item) bool { return i.kind == portItem && w.b.suspects[i.key] }

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

// giveUpAll gives up items that were refused together and are not tried alone.
func (w *writer) giveUpAll(items []*item, err error) error {
	var errs []error
	for _, i := range items {
		if i.kind == portItem {
			w.bad[i.key] = err // which of them is to blame stays open
			continue
		}
		errs = append(errs, w.giveUp(i, err))
	}
	return errors.Join(errs...)
}

// giveUp records that an item cannot be written.
func (w *writer) giveUp(i *item, err error) error {
	switch i.kind {
	case portItem:
		w.bad[i.key] = err
		w.b.suspect(i.key)
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
	for _, t := range w.b.tables {
		if t.broken == nil {
			return nil
		}
		errs = append(errs, t.broken)
	}
	return fmt.Errorf("nftables: sync: %w", errors.Join(errs...))
}

// commit writes items in one transaction, all or nothing.
func (w *writer) commit(ctx context.Context, items []*item) error {
	edits := make([]*edit, 0, len(w.b.tables))
	for _, t := range w.b.tables {
		e := newEdit(t, w.b.layout, w.now)
		for _, i := range items {
			if i.table == t {
				e.take(i)
			}
		}
		edits = append(edits, e)
	}
	tx := &transaction{}
	w.sent = w.direct != nil && !slices.ContainsFunc(edits, func(e *edit) bool { return !e.elementsOnly() })
	if w.sent {
		tx.batch = &batch{}
	}
	write(tx, edits)
	if err := w.run(ctx, tx); err != nil {
		return err
	}
	for _, e := range edits {
		e.commit()
	}
	w.remember(items)
	return nil
}

func (w *writer) run(ctx context.Context, tx *transaction) error {
	if tx.statements == 0 {
		return nil
	}
	before, after, err := w.bring(ctx, tx)
	if err != nil {
		return err
	}
	w.noteCommit(before, after)
	w.b.last.Written += tx.statements
	w.b.last.Commits++
	return nil
}

// bring gives a transaction to the kernel; see counted.
func (w *writer) bring(ctx context.Context, tx *transaction) (before, after uint32, err error) {
	if tx.batch != nil {
		return w.b.counted(func() error { return w.direct.send(tx.batch) })
	}
	text, err := tx.bytes()
	if err != nil {
		return 0, 0, err
	}
	return w.b.execute(ctx, text)
}

func (w *writer) remember(items []*item) {
	for _, i := range items {
		if i.kind != portItem {
			continue
		}
		delete(w.b.suspects, i.key)
		if len(i.before.elements)+len(i.after.elements) > 0 {
			w.b.last.Changes++
		}
		if i.next == nil {
			delete(w.b.ports, i.key)
		} else {
			w.b.ports[i.key] = i.next
		}
	}
}

// chainRest is how long a flushed chain is left before it is deleted. Kernels before
// 6.2 count an element's reference to a chain until a moment after the commit
// that removes the element.
const chainRest = time.Second

// bury deletes chains that were flushed long enough ago. It is no part of the
// plan, so what fails is tried again later.
func (w *writer) bury(ctx context.Context) {
	for _, t := range w.b.tables {
		var due []string
		for name, since := range t.dying {
			if w.now.Sub(since) >= chainRest {
				due = append(due, name)
			}
		}
		slices.Sort(due)
		if w.deleteChains(ctx, t, due...) == nil {
			continue
		}
		for _, name := range due { // one busy chain must not keep the others
			if w.refusals >= maxRefusals {
				return
			}
			if err := w.deleteChains(ctx, t, name); isUnknown(err) {
				return // nft is not well
			} else if err != nil {
				w.refusals++
				t.dying[name] = w.now
			}
		}
	}
}

// deleteChains deletes chains in one transaction. One that is gone already is none to
// try again.
func (w *writer) deleteChains(ctx context.Context, t *table, names ...string) error {
	tx := &transaction{}
	for _, name := range names {
		script{tx: tx, f: t.family, table: w.b.layout.table}.chain(remove, chain{name: name})
	}
	err := w.run(ctx, tx)
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
