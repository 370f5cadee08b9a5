package ipvs

import (
	"context"
	"maps"
	"slices"
)

// ensureMarks makes the virtual servers by mark that are wanted, before the table leads to them: one without real
// servers would refuse.
func (r *round) ensureMarks() error {
	for _, k := range slices.SortedFunc(maps.Keys(r.marks), ServerKey.Compare) {
		if next := r.marks[k]; next != nil {
			if err := r.ensureOne(next); err != nil {
				return err
			}
		}
	}
	return nil
}

// ensureSites makes the virtual servers by address that are wanted.
func (r *round) ensureSites() error {
	for _, s := range slices.SortedFunc(maps.Keys(r.touched), compareSite) {
		if w := r.wanted(s); w != nil {
			if err := r.ensureOne(&w.server); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *round) ensureOne(next *VirtualServer) error {
	var have *VirtualServer
	if old, exists := r.servers[next.ServerKey]; exists {
		have = &old
	}
	if err := r.reconciler.ensureFrom(r.ctx, have, next); err != nil {
		return err
	}
	r.servers[next.ServerKey] = *next
	delete(r.leaving, next.ServerKey)
	return nil
}

// unwanted returns the virtual servers of the round that should go, by mark and by address.
func (r *round) unwanted() (marks, sites []ServerKey) {
	for k, next := range r.marks {
		if next == nil {
			marks = append(marks, k)
		}
	}
	for s := range r.touched {
		if r.wanted(s) == nil {
			sites = append(sites, s.key())
		}
	}
	slices.SortFunc(marks, ServerKey.Compare)
	slices.SortFunc(sites, ServerKey.Compare)
	return marks, sites
}

// drop takes virtual servers out of service.
func (r *round) drop(keys []ServerKey) error {
	for _, k := range keys {
		gone, err := r.dropOne(k)
		if err != nil {
			return err
		}
		if gone {
			r.forget(k)
		} else {
			r.leaving[k] = true
		}
	}
	return nil
}

func (r *round) dropOne(k ServerKey) (gone bool, err error) {
	old, exists := r.servers[k]
	switch {
	case r.now[k]:
		return true, r.reconciler.Remove(k)
	case exists:
		return r.reconciler.drainFrom(r.ctx, &old)
	default:
		return true, nil
	}
}

// forget takes note that a virtual server is gone, and whatever was there only for it.
func (r *round) forget(k ServerKey) {
	delete(r.servers, k)
	delete(r.leaving, k)
	if k.Mark != 0 {
		r.free(k.Mark)
		return
	}
	s := site{k.Addr, k.Protocol}
	if w, ok := r.sites[s]; ok {
		r.count(w.elements, -1)
		delete(r.sites, s)
	}
}

// sweep removes what has drained.
func (r *round) sweep() (left int, err error) {
	left, err = r.reconciler.Sweep(r.ctx)
	if err != nil {
		return left, err
	}
	r.delta = make(map[element]int)
	for k := range r.leaving {
		if !r.reconciler.drains(k) {
			r.forget(k)
		}
	}
	_, removed := r.diff()
	return left, r.finish(removed)
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
