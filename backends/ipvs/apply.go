package ipvs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"time"
)

// ensure makes the virtual server want, which is normal, of have, which is nil if there is none.
func (r *Reconciler) ensure(ctx context.Context, have, want *VirtualServer) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("ipvs: ensure %s: %w", want.ServerKey, err)
	}
	found, err := r.settings(have, want)
	if err != nil {
		return err
	}
	// New real servers first: there is always one that takes connections.
	for _, w := range want.Real {
		if err := r.put(want.ServerKey, found, w); err != nil {
			return err
		}
	}
	var going []RealServer
	for _, h := range found {
		if _, ok := find(want.Real, h.Addr); !ok {
			going = append(going, h)
		}
	}
	return r.retire(ctx, want, going)
}

// settings makes all of a virtual server but its real servers, and returns those that it has. What somebody else made or
// removed meanwhile is found.
func (r *Reconciler) settings(have, want *VirtualServer) (found []RealServer, err error) {
	if have == nil {
		err := r.kernel.AddServer(*want)
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
		if err := r.kernel.SetServer(*want); err != nil {
			return nil, err
		}
		return r.realServers(want.ServerKey)
	}
	if have.sameSettings(want) {
		return have.Real, nil
	}
	if err := r.kernel.SetServer(*want); !errors.Is(err, fs.ErrNotExist) {
		return have.Real, err
	}
	return nil, r.kernel.AddServer(*want)
}

// put makes one real server as wanted.
func (r *Reconciler) put(k ServerKey, have []RealServer, want RealServer) error {
	h, ok := find(have, want.Addr)
	switch {
	case !ok:
		err := r.kernel.AddReal(k, want)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		return r.kernel.SetReal(k, want)
	case h.Weight != want.Weight || h.Forward != want.Forward || h.deadline != 0:
		err := r.kernel.SetReal(k, want)
		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return r.kernel.AddReal(k, want)
	}
	return nil
}

func find(sorted []RealServer, addr netip.AddrPort) (RealServer, bool) {
	i, ok := slices.BinarySearchFunc(sorted, addr, func(s RealServer, a netip.AddrPort) int { return s.Addr.Compare(a) })
	if !ok {
		return RealServer{}, false
	}
	return sorted[i], true
}

// retire takes real servers out of service, and remembers those that stay for a while as all
// that drains of v.
func (r *Reconciler) retire(ctx context.Context, v *VirtualServer, going []RealServer) error {
	d := &drain{connectionless: v.Connectionless, real: make(map[netip.AddrPort]bool)}
	for _, s := range going {
		d.real[s.Addr] = true // also after an error
	}
	if len(going) > 0 {
		r.draining[v.ServerKey] = d
	}
	going, err := r.quiesce(v, going)
	if err != nil {
		return err
	}
	for _, s := range going {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("ipvs: retire real servers of %s: %w", v.ServerKey, err)
		}
		gone, err := r.retireOne(v, s)
		if err != nil {
			return err
		}
		if gone {
			delete(d.real, s.Addr)
		}
	}
	if len(d.real) == 0 {
		delete(r.draining, v.ServerKey)
	}
	return nil
}

// quiesce takes the weight of real servers before it is decided whether they are idle, and
// returns what is known of them after that: a connection that comes in between would be cut.
func (r *Reconciler) quiesce(v *VirtualServer, going []RealServer) ([]RealServer, error) {
	if v.Connectionless || r.limit < 0 {
		return going, nil
	}
	changed := false
	for _, s := range going {
		if s.Weight == 0 {
			continue
		}
		s.Weight, s.deadline = 0, threshold(time.Now().Add(r.limit))
		if err := r.kernel.SetReal(v.ServerKey, s); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		changed = true
	}
	if !changed {
		return going, nil
	}
	now, err := r.realServers(v.ServerKey)
	if err != nil {
		return nil, err
	}
	// One that somebody else has removed meanwhile is not there to be deleted, which is fine.
	for i, s := range going {
		if found, ok := find(now, s.Addr); ok {
			going[i] = found
		}
	}
	return going, nil
}

// retireOne removes a real server, or gives it weight 0 and a deadline.
func (r *Reconciler) retireOne(v *VirtualServer, s RealServer) (gone bool, err error) {
	now := time.Now()
	until := now.Add(r.limit)
	if old, ok := s.Draining(); ok && old.Before(until) {
		until = old
	}
	if v.Connectionless || s.Active+s.Inactive == 0 || !now.Before(until) {
		err := r.kernel.DeleteReal(v.ServerKey, s.Addr)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return false, err
		}
		return true, nil
	}
	if deadline := threshold(until); s.Weight != 0 || s.deadline != deadline {
		s.Weight, s.deadline = 0, deadline
		err := r.kernel.SetReal(v.ServerKey, s)
		if errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		return false, err
	}
	return false, nil
}

// threshold returns a deadline as it is stored in the kernel: seconds since 1970, in both
// connection thresholds of the real server. A real server at weight 0 gets no connections, so
// they limit nothing, and no administrator asks for one and a half billion connections. That is
// how a new process, which finds the real server at weight 0, knows for how long.
func threshold(until time.Time) uint32 { return uint32(until.Unix()) }

// drain takes a whole virtual server out of service; have is nil if there is none.
func (r *Reconciler) drain(ctx context.Context, have *VirtualServer, k ServerKey) (gone bool, err error) {
	if have == nil {
		delete(r.draining, k)
		return true, nil
	}
	if err := r.retire(ctx, have, have.Real); err != nil {
		if d := r.draining[k]; d != nil {
			d.whole = true
		}
		return false, err
	}
	if d := r.draining[k]; d != nil {
		d.whole = true
		return false, nil
	}
	return true, r.remove(k)
}
