package ipvs

import (
	"context"
	"slices"
)

// A leaver is a virtual server that nobody wants any more and that has connections.
type leaver struct {
	key            ServerKey
	bound, cluster bool // as in value

	// elements turn new connections away: refused if the address stays, and otherwise unanswered, as if it were gone.
	elements []element
}

// keeps reports whether the address stays bound for the sake of the connections: that of an external or load-balancer IP may
// be somebody else's by now.
func (l *leaver) keeps() bool { return l.bound && l.cluster }

// leaveAll lets the sites that are not wanted any more turn new connections away, and cuts those off that have lost their address.
func (t *turn) leaveAll() {
	for _, old := range t.leave {
		l := &leaver{key: old.server.ServerKey, bound: old.bound, cluster: old.cluster}
		t.leavers[l.key] = l
		t.drop = append(t.drop, l.key)
		if l.keeps() {
			t.keep(l, 1)
		}
		if l.key.Mark == 0 && !t.isCut(l) {
			l.elements = t.refusal(l)
		}
		for i := range l.elements {
			t.cells[l.elements[i].cell] = &l.elements[i].value
		}
	}
	for k, l := range t.leavers {
		if t.isCut(l) {
			t.drop = append(t.drop, k)
		}
	}
	slices.SortFunc(t.drop, ServerKey.Compare)
	t.drop = slices.Compact(t.drop)
}

// isCut reports whether a leaver has lost its address, so that it cannot stay for the sake of its connections.
func (d *dialect) isCut(l *leaver) bool {
	return l.bound && !l.cluster && !d.wanted[l.key.Addr.Addr()]
}

func (d *dialect) refusal(l *leaver) []element {
	verdict := verdictRefuse
	if l.bound && !d.wanted[l.key.Addr.Addr()] {
		verdict = verdictDrop
	}
	s := l.key.site()
	out := []element{{cell: s.in(boxFrontends)}}
	for _, o := range origins() {
		out = append(out, element{s.in(boxDeny + o.String()), verdict})
	}
	return out
}

// keep counts for whom an address stays.
func (t *turn) keep(l *leaver, n int) {
	a := l.key.Addr.Addr()
	t.addrs[a] = true
	if t.kept[a] += n; t.kept[a] == 0 {
		delete(t.kept, a)
	}
}

// stay ends a leave: the virtual server is wanted again.
func (t *turn) stay(l *leaver) {
	delete(t.leavers, l.key)
	if l.keeps() {
		t.keep(l, -1)
	}
}

// dropServers takes virtual servers out of service, those by mark first. By then nothing may lead to these any more.
func (t *turn) dropServers(ctx context.Context) error {
	if len(t.drop) > 0 && t.drop[0].Mark != 0 {
		if err := t.removeElements(ctx); err != nil {
			return err
		}
	}
	for _, k := range t.drop {
		gone, err := t.dropOne(ctx, k)
		if err != nil {
			return err
		}
		if gone {
			t.forget(k)
		}
	}
	t.settleAddresses()
	return nil
}

func (t *turn) dropOne(ctx context.Context, k ServerKey) (gone bool, err error) {
	have, exists := t.servers[k]
	switch {
	case t.isCut(t.leavers[k]):
		return true, t.reconciler.Remove(k)
	case exists:
		return t.reconciler.drainFrom(ctx, &have)
	default:
		return true, nil
	}
}

// forget takes note that a virtual server is gone, and removes whatever was there only for it.
func (t *turn) forget(k ServerKey) {
	delete(t.servers, k)
	if k.Mark != 0 {
		t.marks.free(k.Mark)
	}
	if l := t.leavers[k]; l != nil {
		t.stay(l)
		for _, e := range l.elements {
			t.cells[e.cell] = nil
		}
	}
}

// sweep removes what has drained, and returns how many real servers are left.
func (d *dialect) sweep(ctx context.Context) (left int, err error) {
	left, err = d.reconciler.Sweep(ctx)
	if err != nil {
		return left, err
	}
	t := d.newTurn(0)
	for k := range d.leavers {
		if !d.reconciler.drains(k) {
			t.forget(k)
		}
	}
	t.settleAddresses()
	return left, t.finish(ctx)
}

// ensureFrom is Ensure for a caller who knows the settings of the virtual server that is
// there, nil if there is none.
func (r *Reconciler) ensureFrom(ctx context.Context, have, want *VirtualServer) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, err := r.withReal(have)
	if err != nil {
		return err
	}
	return r.ensure(ctx, have, want)
}

// drainFrom is Drain for such a caller.
func (r *Reconciler) drainFrom(ctx context.Context, have *VirtualServer) (gone bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	have, err = r.withReal(have)
	if err != nil {
		return false, err
	}
	return r.drain(ctx, have, have.ServerKey)
}

func (r *Reconciler) withReal(have *VirtualServer) (*VirtualServer, error) {
	if have == nil {
		return nil, nil //nolint:nilnil // nothing there is an answer
	}
	found, err := r.realServers(have.ServerKey)
	if err != nil {
		return nil, err
	}
	out := *have
	out.Real = found
	return &out, nil
}

// drains reports whether something of a virtual server drains.
func (r *Reconciler) drains(k ServerKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.draining[k] != nil
}
