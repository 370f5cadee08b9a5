package allocator

import (
	"net/netip"
	"slices"
	"time"
)

// A family is what a [MultiCIDR] knows about the addresses of one family. Its
// methods need the lock of the MultiCIDR.
//
// An address cannot be picked while it is known, or while it is being created.
type family struct {
	ranges    []coverage // distinct, sorted
	segments  []*segment
	known     map[netip.Addr]known       // also outside of all ranges
	ends      deadlines[netip.Addr]      // when something known is forgotten
	creations map[netip.Addr][]*creation // on their way to the store
	removals  map[netip.Addr][]*removal  // on their way to the store

	// changes notes what happens while it is not nil, during a Refresh.
	changes map[netip.Addr]change
}

// known is what is known about an address that cannot be picked.
type known struct {
	owner Owner
	state state

	// foreign is as in [Record].
	foreign bool

	// shown says that a list or a watch had the entry. Until then a watch that is
	// late can tell only of what was before it.
	shown bool
}

// unconfirmed reports whether the entry is known from our own claim only.
func (k known) unconfirmed() bool { return k.state == held && !k.shown }

// A state says why an address cannot be picked.
type state uint8

const (
	held     state = iota // the store has an entry
	collided              // the store had an entry, but of that was heard no more
	cooling               // nobody has it, its quarantine runs
)

// collisionTime is how long an address that the store refused is not tried again
// unless something is heard of it: a watch tells within seconds.
const collisionTime = time.Minute

// A creation is a call of [Store.Create] that is not settled.
type creation struct {
	owner Owner
	shown bool // meanwhile a watch had the entry, and is ahead of the call
}

// A removal is a call of [Store.Delete] that is not settled.
type removal struct {
	owner     Owner
	overtaken bool // meanwhile there is another entry
}

// A change is what happened to an address during a Refresh.
type change uint8

const (
	doubted change = iota // the store had an entry, which the list may be too old for
	learned               // what is known is newer than the list
)

func newFamily() *family {
	return &family{
		known:     map[netip.Addr]known{},
		creations: map[netip.Addr][]*creation{},
		removals:  map[netip.Addr][]*removal{},
	}
}

// rebuild makes the segments from the ranges and what cannot be picked.
func (f *family) rebuild() {
	f.segments = newSegments(f.ranges)
	for addr := range f.known {
		f.mark(addr)
	}
	for addr := range f.creations {
		f.mark(addr)
	}
}

// mark keeps addr from picks. It reports false if it is kept already, or is in
// no range.
func (f *family) mark(addr netip.Addr) bool {
	s, n := find(f.segments, addr)
	return s != nil && s.add(n)
}

// unmark ends mark, unless there is still a reason for it.
func (f *family) unmark(addr netip.Addr) {
	if _, ok := f.known[addr]; ok || len(f.creations[addr]) > 0 {
		return
	}
	if s, n := find(f.segments, addr); s != nil {
		s.remove(n)
	}
}

func (f *family) note(addr netip.Addr, c change) {
	if f.changes != nil {
		f.changes[addr] = max(f.changes[addr], c)
	}
}

// newer reports whether our claim is newer than r, because no watch has told of it
// yet and nothing calls it into question.
func (f *family) newer(r Record) bool {
	k, ok := f.known[r.Addr]
	questioned := f.ends.has(r.Addr) || len(f.removals[r.Addr]) > 0
	return ok && k.unconfirmed() && !k.owner.Same(r.Owner) && !questioned
}

// learn notes that the store has an entry of addr.
func (f *family) learn(addr netip.Addr, k known) {
	f.note(addr, learned)
	for _, r := range f.removals[addr] {
		r.overtaken = true
	}
	f.ends.remove(addr)
	f.known[addr] = k
	f.mark(addr)
}

// unlearn notes that the store has no entry of addr any more. Unless until is
// zero it starts the quarantine, if that does not run already.
func (f *family) unlearn(addr netip.Addr, until time.Time) {
	k, ok := f.known[addr]
	if !ok || k.state == cooling {
		return
	}
	f.note(addr, learned)
	if !until.IsZero() {
		f.known[addr] = known{state: cooling}
		f.ends.put(addr, until)
		return
	}
	f.drop(addr)
}

// doubt notes that addr has an entry as far as is known, which is forgotten
// unless something is heard of it until a time.
func (f *family) doubt(addr netip.Addr, k known, until time.Time) {
	f.note(addr, doubted)
	f.known[addr] = k
	f.ends.put(addr, until)
	f.mark(addr)
}

// drop forgets addr. That says nothing about the store.
func (f *family) drop(addr netip.Addr) {
	f.ends.remove(addr)
	delete(f.known, addr)
	f.unmark(addr)
}

// expire forgets what has come to its end.
func (f *family) expire(now time.Time) {
	for addr, ok := f.ends.due(now); ok; addr, ok = f.ends.due(now) {
		f.drop(addr)
	}
}

// replace makes listed what is known, but for what the list is too old for.
func (f *family) replace(listed map[netip.Addr]known) {
	for addr, k := range f.known {
		_, has := listed[addr]
		news, changed := f.changes[addr]
		if news == learned || !has && (changed || k.state == cooling) {
			listed[addr] = k
			continue
		}
		f.ends.remove(addr)
	}
	for addr, c := range f.changes {
		if _, ok := f.known[addr]; !ok && c == learned {
			delete(listed, addr)
		}
	}
	for addr, calls := range f.removals {
		for _, r := range calls {
			k, ok := listed[addr]
			r.overtaken = r.overtaken || ok && !k.owner.Same(r.owner)
		}
	}
	f.known = listed
	f.rebuild()
}

// stats counts the addresses in s, whatever segments it is in.
func (f *family) stats(s span) Stats {
	out := Stats{Size: s.size}
	if s.size == 0 {
		return out
	}
	for _, seg := range f.segments {
		if seg.last().Less(s.first) || s.last().Less(seg.first) {
			continue
		}
		from, to := uint64(0), seg.size
		if n, ok := seg.number(s.first); ok {
			from = n
		}
		if n, ok := seg.number(s.last()); ok {
			to = n + 1
		}
		out.Used += seg.set.below(to) - seg.set.below(from)
	}
	out.Free = s.size - out.Used
	for _, d := range f.ends.heap {
		if _, inside := s.number(d.key); inside && f.known[d.key].state == cooling {
			out.Used--
			out.Quarantined++
		}
	}
	return out
}

// prefixes returns the ranges as text, for errors.
func (f *family) prefixes() []string {
	out := make([]string, 0, len(f.ranges))
	for _, r := range f.ranges {
		out = append(out, r.prefix.String())
	}
	return out
}

// refusal returns why addr cannot be claimed, whoever holds it: nil if a range
// that is ready has it.
func (f *family) refusal(op string, addr netip.Addr) error {
	s, _ := find(f.segments, addr)
	switch {
	case s != nil && s.class != closed:
		return nil
	case s != nil:
		return &Error{Op: op, Value: addr.String(), Err: ErrNotReady}
	case len(f.ranges) == 0:
		return &Error{Op: op, Value: addr.String(), Err: ErrNoRange}
	}
	return &Error{Op: op, Value: addr.String(), Ranges: f.prefixes(), Err: ErrOutOfRange}
}

// pick returns a free address, or a bare error.
func (f *family) pick(random func(uint64) uint64) (netip.Addr, error) {
	for _, c := range []class{inDynamic, inStatic} {
		if addr, ok := draw(f.segments, c, random); ok {
			return addr, nil
		}
	}
	ready := false
	for _, r := range f.ranges {
		ready = ready || r.ready
	}
	switch {
	case ready:
		return netip.Addr{}, ErrFull
	case len(f.ranges) > 0:
		return netip.Addr{}, ErrNotReady
	}
	return netip.Addr{}, ErrNoRange
}

// begin marks addr as on its way to the store for owner.
func (f *family) begin(addr netip.Addr, owner Owner) *creation {
	c := &creation{owner: owner}
	f.creations[addr] = append(f.creations[addr], c)
	f.mark(addr)
	return c
}

// end ends begin. What came of it must be noted before.
func (f *family) end(addr netip.Addr, c *creation) {
	withoutCall(f.creations, addr, c)
	f.unmark(addr)
}

func (f *family) beginRemoval(addr netip.Addr, owner Owner) *removal {
	r := &removal{owner: owner}
	f.removals[addr] = append(f.removals[addr], r)
	return r
}

func (f *family) endRemoval(addr netip.Addr, r *removal) { withoutCall(f.removals, addr, r) }

// withoutCall takes one call out of those under way for addr.
func withoutCall[T comparable](calls map[netip.Addr][]T, addr netip.Addr, call T) {
	left := slices.DeleteFunc(calls[addr], func(c T) bool { return c == call })
	if len(left) == 0 {
		delete(calls, addr)
		return
	}
	calls[addr] = left
}
