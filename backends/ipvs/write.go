package ipvs

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"

	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends/engine"
)

// A turn is one Write at work. Virtual servers by mark come first, since without real servers one
// refuses; then what refuses new packets and leads to other servers, addresses, and virtual servers by address. What nobody wants goes last.
type turn struct {
	*dialect

	rules    []rule // nil if they stay
	fresh    bool   // the table is made anew
	timeouts Timeouts

	cells map[cell]*string // as they are to be; nil is not there
	addrs map[netip.Addr]bool

	byMark, byAddr []*VirtualServer // to be made
	drop           []ServerKey      // to be taken out of service
	leave          []value          // of which the sites are wanted no more
	bind           map[netip.Addr]netip.Addr
}

func (d *dialect) newTurn(edits int) *turn {
	return &turn{
		dialect: d, cells: make(map[cell]*string, 2*edits), addrs: make(map[netip.Addr]bool),
		bind: make(map[netip.Addr]netip.Addr),
	}
}

// Write is part of [engine.Dialect].
func (d *dialect) Write(ctx context.Context, edits []edit) error {
	if d.mode == cleaning {
		return d.wipe(ctx, edits)
	}
	t := d.newTurn(len(edits))
	for _, e := range edits {
		t.take(e)
	}
	t.leaveAll()
	t.settleAddresses()
	for _, step := range []func(context.Context) error{t.ensureMarks, t.addElements, t.bindAll, t.ensureSites, t.dropServers, t.finish} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// take notes what one edit changes.
func (t *turn) take(e edit) {
	var old, next value
	if e.Old != nil {
		old = *e.Old
	}
	if e.New != nil {
		next = *e.New
	}
	switch e.ID.kind {
	case kindRules:
		t.rules, t.fresh = next.rules, e.Old == nil // they stay if the engine takes back that it made them
	case kindTimeouts:
		t.timeouts = next.timeouts
	case kindAddress:
		t.takeAddress(old, next)
	case kindServer:
		old.elements = slices.Concat(old.elements, t.takeServer(old, next))
	}
	for _, had := range old.elements {
		if _, comes := t.cells[had.cell]; !comes {
			t.cells[had.cell] = nil
		}
	}
	for i := range next.elements {
		t.cells[next.elements[i].cell] = &next.elements[i].value
	}
}

func (t *turn) takeAddress(old, next value) {
	if !next.routed {
		delete(t.wanted, old.addr)
		t.addrs[old.addr] = true
		return
	}
	t.wanted[next.addr] = true
	t.addrs[next.addr] = true
	if !old.routed || old.source != next.source {
		t.bind[next.addr] = next.source
	}
}

// takeServer notes a virtual server, and returns the elements that it had while it drained.
func (t *turn) takeServer(old, next value) (drained []element) {
	if next.server == nil {
		if old.server != nil {
			t.leave = append(t.leave, old)
		}
		return nil
	}
	k := next.server.ServerKey
	l := t.leavers[k]
	if l == nil && sameServer(old.server, next.server) {
		return nil
	}
	if k.Mark != 0 {
		t.byMark = append(t.byMark, next.server)
	} else {
		t.byAddr = append(t.byAddr, next.server)
	}
	if l == nil {
		return nil
	}
	t.stay(l)
	return l.elements
}

// settleAddresses says what the table has of addresses: those that are wanted, or kept for old connections.
func (t *turn) settleAddresses() {
	present := ""
	for a := range t.addrs {
		bound, gone := addrCell(boxBound, a), addrCell(boxGoneIPs, a)
		t.cells[bound], t.cells[gone] = nil, nil
		if t.kept[a] > 0 {
			t.cells[gone] = &present
		}
		if t.isBound(a) {
			t.cells[bound] = &present
		}
	}
}

func (d *dialect) isBound(a netip.Addr) bool { return d.wanted[a] || d.kept[a] > 0 }

func (t *turn) ensureMarks(ctx context.Context) error {
	if t.timeouts != (Timeouts{}) {
		if err := t.kernel.SetTimeouts(t.timeouts); err != nil {
			return refusal(err)
		}
	}
	return t.ensure(ctx, t.byMark)
}

func (t *turn) ensureSites(ctx context.Context) error { return t.ensure(ctx, t.byAddr) }

// ensure makes virtual servers.
func (t *turn) ensure(ctx context.Context, list []*VirtualServer) error {
	slices.SortFunc(list, func(a, b *VirtualServer) int { return a.Compare(b.ServerKey) })
	for _, want := range list {
		var have *VirtualServer
		if s, ok := t.servers[want.ServerKey]; ok {
			have = &s
		}
		err := t.reconciler.ensureFrom(ctx, have, want)
		s := VirtualServer{ServerKey: want.ServerKey, Connectionless: want.Connectionless}
		if err != nil {
			t.servers[s.ServerKey] = s // if there is one, its settings are not known
			return refusal(err)
		}
		s = *want
		s.Real = nil
		t.servers[s.ServerKey] = s
	}
	return nil
}

// refusal lets the engine find out which port cannot be written, if that is what an error says.
func refusal(err error) error {
	if !isRefusal(err) {
		return err
	}
	return fmt.Errorf("%w, %w: %w", engine.ErrRefused, engine.ErrHalfway, err)
}

// addElements adds to the table what is new, and replaces what excludes it. A table that is made anew gets all that was in the old one.
func (t *turn) addElements(ctx context.Context) error {
	cells := t.sorted()
	added := t.added(cells)
	replaced := t.replaced(cells, added)
	tx := t.nft.NewTransaction()
	if t.fresh {
		remove(tx)
	}
	if len(t.rules) > 0 {
		declare(tx, t.rules, t.fresh)
	}
	if t.fresh {
		t.restore(tx, replaced)
	} else {
		for _, at := range replaced {
			tx.Delete(element{at, t.placed[at]}.object())
		}
	}
	for _, e := range added {
		tx.Add(e.object())
	}
	if err := t.run(ctx, tx); err != nil {
		return err
	}
	for _, at := range replaced {
		delete(t.placed, at)
	}
	for _, e := range added {
		t.placed[e.cell] = e.value
	}
	return nil
}

// added returns the elements that are not there.
func (t *turn) added(cells []cell) []element {
	out := make([]element, 0, len(cells))
	for _, at := range cells {
		next := t.cells[at]
		if had, there := t.placed[at]; next != nil && (!there || had != *next) {
			out = append(out, element{at, *next})
		}
	}
	return out
}

// replaced returns the cells of elements that must go before others can come, sorted.
func (t *turn) replaced(cells []cell, added []element) []cell {
	coming := make(map[cell]bool)
	for _, e := range added {
		if of, ok := e.exclusive(); ok {
			coming[of] = true
		}
	}
	return slices.DeleteFunc(cells, func(at cell) bool {
		of, ok := at.exclusive()
		had, there := t.placed[at]
		next := t.cells[at]
		return !ok || !there || !coming[of] || next != nil && *next == had
	})
}

// restore adds to a new table what was in the old one, but for what is replaced and what only an earlier version knew.
func (t *turn) restore(tx *knftables.Transaction, replaced []cell) {
	known := knownBoxes()
	for _, at := range slices.SortedFunc(maps.Keys(t.placed), compareCell) {
		switch {
		case !known[at.box]:
			delete(t.placed, at)
		case !isIn(replaced, at):
			tx.Add(element{at, t.placed[at]}.object())
		}
	}
}

func isIn(sorted []cell, at cell) bool {
	_, found := slices.BinarySearchFunc(sorted, at, compareCell)
	return found
}

func (t *turn) sorted() []cell { return slices.SortedFunc(maps.Keys(t.cells), compareCell) }

// removeElements removes from the table what is not to be there.
func (t *turn) removeElements(ctx context.Context) error {
	tx := t.nft.NewTransaction()
	var gone []cell
	for at, next := range t.cells {
		if _, there := t.placed[at]; there && next == nil {
			gone = append(gone, at)
		}
	}
	slices.SortFunc(gone, compareCell)
	for _, at := range gone {
		tx.Delete(element{at, t.placed[at]}.object())
	}
	if err := t.run(ctx, tx); err != nil {
		return err
	}
	for _, at := range gone {
		delete(t.placed, at)
	}
	return nil
}

func (d *dialect) run(ctx context.Context, tx *knftables.Transaction) error {
	if tx.NumOperations() == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := d.nft.Run(ctx, tx); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	return nil
}

// bindAll binds addresses.
func (t *turn) bindAll(ctx context.Context) error {
	for _, a := range slices.SortedFunc(maps.Keys(t.bind), netip.Addr.Compare) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := t.links.bind(a, t.bind[a]); err != nil {
			return refusal(err)
		}
	}
	return nil
}

// finish removes what nobody wants any more.
func (t *turn) finish(ctx context.Context) error {
	if err := t.removeElements(ctx); err != nil {
		return err
	}
	for _, a := range slices.SortedFunc(maps.Keys(t.addrs), netip.Addr.Compare) {
		if t.isBound(a) {
			continue
		}
		if err := t.links.unbind(a); err != nil {
			return err
		}
	}
	if t.fresh {
		return t.links.removeOld()
	}
	return nil
}

// wipe removes what was found, at once. The Backend removes the table, which names it, after that.
func (d *dialect) wipe(ctx context.Context, edits []edit) error {
	for _, e := range edits {
		if err := ctx.Err(); err != nil {
			return err
		}
		if v := e.Old.server; v != nil {
			if err := d.reconciler.Remove(v.ServerKey); err != nil {
				return err
			}
		}
		if e.Old.routed {
			if err := d.links.unbind(e.Old.addr); err != nil {
				return err
			}
		}
	}
	return nil
}
