package ipvs

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A round is one Sync at work.
type round struct {
	*Backend

	ctx   context.Context
	bad   map[plan.Key]error
	delta map[element]int // how many more want an element

	touched map[site]bool                // sites that may differ
	leavers []want                       // of these, those that begin to leave
	marks   map[ServerKey]*VirtualServer // that may differ, nil if not wanted any more
	now     map[ServerKey]bool           // that go without draining
}

// A step is a Service port from one program to the next.
type step struct {
	key       plan.Key
	old, next *program
}

// change works off a delta on top of what is remembered.
func (r *round) change(d *plan.Delta) error {
	r.node.plan = d.New
	var steps []step
	for _, c := range d.Changes {
		next, err := r.prepare(c.After)
		if err != nil {
			r.bad[c.Key] = err
			if old := r.ports[c.Key]; old != nil {
				old.held = true // its sites are claimed by others only in this Delta or a later one
			}
			continue
		}
		steps = append(steps, step{c.Key, r.ports[c.Key], next})
	}
	r.begin(steps)
	return r.write()
}

// prepare compiles a port, and finds out before anything is written whether the kernel can do it.
func (r *round) prepare(p *plan.Port) (*program, error) {
	if p != nil {
		if err := r.try(r.opts.balance(p).Scheduler); err != nil {
			return nil, err
		}
	}
	return r.node.compile(p)
}

// begin notes everything that steps change: what goes first, so that a site can pass from
// one port to another.
func (r *round) begin(steps []step) {
	r.last.Changes = len(steps)
	r.delta, r.touched = make(map[element]int), make(map[site]bool)
	r.marks, r.now = make(map[ServerKey]*VirtualServer), make(map[ServerKey]bool)
	for _, s := range steps {
		if s.old != nil {
			r.release(s.old)
		}
	}
	for _, s := range steps {
		r.take(s.next)
		if r.ports[s.key] = s.next; len(s.next.wants) == 0 {
			delete(r.ports, s.key)
		}
	}
	for s := range r.touched {
		r.settle(s)
	}
	for s := range r.touched {
		r.leave(s)
	}
	r.countLeavers()
	r.abandon()
}

func compareSite(a, b site) int {
	return cmp.Or(a.addr.Compare(b.addr), strings.Compare(string(a.proto), string(b.proto)))
}

func (r *round) release(p *program) {
	r.unclaim(p)
	r.touch(p)
	for _, v := range p.marked {
		r.marks[v.ServerKey] = nil
	}
	r.count(p.elements, -1)
}

func (r *round) touch(p *program) {
	for i := range p.wants {
		r.touched[p.wants[i].site] = true
	}
}

func (r *round) take(p *program) {
	r.claim(p)
	r.touch(p)
	for i := range p.marked {
		r.marks[p.marked[i].ServerKey] = &p.marked[i]
	}
	r.count(p.elements, 1)
}

func (r *round) count(elements []element, n int) {
	for _, e := range elements {
		r.delta[e] += n
	}
}

// settle gives a site to whoever wants it.
func (r *round) settle(s site) {
	w := r.wanted(s)
	if old, ok := r.sites[s]; ok && (w != nil || !old.leaves) {
		r.count(old.elements, -1)
	}
	if w != nil {
		r.sites[s] = *w
		r.count(w.elements, 1)
	}
}

// leave lets a site that nobody wants turn new connections away until those it has have
// ended: refused if the address stays, and otherwise unanswered, as if it were gone.
func (r *round) leave(s site) {
	old, ok := r.sites[s]
	if !ok || r.wanted(s) != nil || old.leaves {
		return
	}
	verdict := verdictRefuse
	if old.bound && !r.isWanted(s) {
		verdict = verdictDrop
	}
	next := old.leaving(verdict)
	r.sites[s] = next
	r.leavers = append(r.leavers, next)
}

// abandon drops sites that are leaving and have lost their address: it may be somebody
// else's by now, so it cannot stay for the sake of old connections.
func (r *round) abandon() {
	for k := range r.leaving {
		if k.Mark == 0 {
			r.touched[site{k.Addr, k.Protocol}] = true
		}
	}
	for s := range r.touched {
		w := r.sites[s]
		if !w.leaves || !w.bound || r.isWanted(s) {
			continue
		}
		r.count(w.elements, -1)
		delete(r.sites, s)
		r.now[s.key()] = true
	}
}

// countLeavers counts the elements of sites that leave, after all have been judged: they do not keep each
// other's address.
func (r *round) countLeavers() {
	for _, w := range r.leavers {
		r.count(w.elements, 1)
	}
	r.leavers = nil
}

// isWanted reports whether the address of a site will be bound.
func (r *round) isWanted(s site) bool {
	e := s.boundElement()
	return r.elements[e]+r.delta[e] > 0
}

// write brings it all into the kernel.
func (r *round) write() error {
	if err := r.ensureMarks(); err != nil {
		return err
	}
	added, removed := r.diff()
	if err := r.writeElements(added, r.replaced(added, removed)); err != nil {
		return err
	}
	return r.follow(added)
}

// follow does what comes after the elements that are new.
func (r *round) follow(added []element) error {
	r.commit(nil)
	if err := r.bind(added); err != nil {
		return err
	}
	if err := r.ensureSites(); err != nil {
		return err
	}
	marks, sites := r.unwanted()
	if len(marks) > 0 {
		// Nothing may lead to them any more.
		_, removed := r.diff()
		if err := r.finish(removed); err != nil {
			return err
		}
	}
	if err := r.drop(slices.Concat(marks, sites)); err != nil {
		return err
	}
	_, removed := r.diff()
	return r.finish(removed)
}

// finish removes elements and addresses that nobody wants any more.
func (r *round) finish(removed []element) error {
	if err := r.writeElements(nil, removed); err != nil {
		return err
	}
	return r.unbind(removed)
}

// diff returns the elements that come and those that go, sorted.
func (r *round) diff() (added, removed []element) {
	for e, n := range r.delta {
		before := r.elements[e]
		switch after := before + n; {
		case before <= 0 && after > 0:
			added = append(added, e)
		case before > 0 && after <= 0:
			removed = append(removed, e)
		}
	}
	slices.SortFunc(added, compareElement)
	slices.SortFunc(removed, compareElement)
	return added, removed
}

func compareElement(a, b element) int {
	return cmp.Or(strings.Compare(a.box, b.box), strings.Compare(a.key, b.key), strings.Compare(a.value, b.value))
}

// commit takes over the counts of all elements but those that go and are not in done: they
// are in the table still.
func (r *round) commit(done []element) {
	for _, e := range done {
		delete(r.elements, e)
		delete(r.delta, e)
	}
	for e, n := range r.delta {
		after := r.elements[e] + n
		if r.elements[e] > 0 && after <= 0 {
			continue
		}
		if r.elements[e] = after; after <= 0 {
			delete(r.elements, e)
		}
		delete(r.delta, e)
	}
}

// replaced returns the elements of maps that must go before others with the same key come.
func (r *round) replaced(added, removed []element) []element {
	coming := make(map[element]bool)
	for _, e := range added {
		coming[element{box: e.box, key: e.key}] = true
	}
	return slices.DeleteFunc(slices.Clone(removed), func(e element) bool {
		return !isMap(e.box) || !coming[element{box: e.box, key: e.key}]
	})
}

// writeElements removes and adds elements in one transaction.
func (r *round) writeElements(added, removed []element) error {
	tx := r.nft.NewTransaction()
	for _, e := range removed {
		tx.Delete(e.object())
	}
	for _, e := range added {
		tx.Add(e.object())
	}
	if err := r.run(tx); err != nil {
		return err
	}
	r.commit(removed)
	return nil
}

func (r *round) run(tx *knftables.Transaction) error {
	if tx.NumOperations() == 0 {
		return nil
	}
	if err := r.ctx.Err(); err != nil {
		return err
	}
	if err := r.nft.Run(r.ctx, tx); err != nil {
		return fmt.Errorf("nftables: %w", err)
	}
	r.last.Written += tx.NumOperations()
	r.last.Commits++
	return nil
}

// bind binds the addresses among elements.
func (r *round) bind(elements []element) error {
	return r.eachBound(elements, func(a netip.Addr) error { return r.links.bind(a, r.node.source(a)) })
}

func (r *round) unbind(elements []element) error {
	return r.eachBound(elements, r.links.unbind)
}

func (r *round) eachBound(elements []element, do func(netip.Addr) error) error {
	for _, e := range elements {
		if !strings.HasPrefix(e.box, boxBound) {
			continue
		}
		if err := r.ctx.Err(); err != nil {
			return err
		}
		a, err := netip.ParseAddr(e.key)
		if err != nil {
			return err
		}
		if err := do(a); err != nil {
			return err
		}
		r.last.Written++
		r.last.Commits++
	}
	return nil
}
