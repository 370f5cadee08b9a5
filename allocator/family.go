package allocator

import (
	"net/netip"
	"slices"
	"time"
)

// A family is what a [MultiCIDR] knows about the addresses of one family. Its
// methods need the lock of the MultiCIDR.
type family struct {
	ranges   []coverage // distinct, sorted
	segments []*segment
	held     map[netip.Addr]known // also outside of all ranges
	queue    []coolingAddr

	// touched notes what changes while it is not nil.
	touched map[netip.Addr]struct{}
}

// known is what is known about an address that cannot be picked.
type known struct {
	state   state
	owner   Owner
	foreign bool
	until   time.Time // when a cooling or collided one can be picked again
}

// A state says why an address cannot be picked.
type state uint8

const (
	held     state = iota // the store has an entry
	pending               // an entry is on its way to the store
	collided              // the store had an entry, but of that was heard no more
	cooling               // nobody has it, its quarantine runs
)

// collisionTime is how long an address that the store refused is not tried again
// unless something is heard of it: a watch tells within seconds.
const collisionTime = time.Minute

// A coolingAddr can be picked again from a time on.
type coolingAddr struct {
	addr  netip.Addr
	until time.Time
}

func newFamily() *family { return &family{held: map[netip.Addr]known{}} }

// rebuild makes the segments from the ranges and what is held.
func (f *family) rebuild() {
	f.segments = newSegments(f.ranges)
	for addr := range f.held {
		if s, n := find(f.segments, addr); s != nil {
			s.add(n)
		}
	}
}

// replace makes listed what is held, but keeps the state of addresses that were
// touched, that are on their way, and that are quarantined.
func (f *family) replace(listed map[netip.Addr]known) {
	for addr, k := range f.held {
		_, touched := f.touched[addr]
		if touched || k.state == pending || k.state == cooling {
			listed[addr] = k
		}
	}
	for addr := range f.touched {
		if _, ok := f.held[addr]; !ok {
			delete(listed, addr)
		}
	}
	f.held = listed
	f.rebuild()
}

func (f *family) touch(addr netip.Addr) {
	if f.touched != nil {
		f.touched[addr] = struct{}{}
	}
}

// hold notes that addr is in use.
func (f *family) hold(addr netip.Addr, k known) {
	f.touch(addr)
	f.held[addr] = k
	if s, n := find(f.segments, addr); s != nil {
		s.add(n)
	}
}

// drop notes that addr is free.
func (f *family) drop(addr netip.Addr) {
	f.touch(addr)
	delete(f.held, addr)
	if s, n := find(f.segments, addr); s != nil {
		s.remove(n)
	}
}

// hide keeps addr from picks until a time, as cooling or collided.
func (f *family) hide(addr netip.Addr, k known) {
	f.hold(addr, k)
	at, _ := slices.BinarySearchFunc(f.queue, k.until, func(c coolingAddr, until time.Time) int {
		return c.until.Compare(until)
	})
	f.queue = slices.Insert(f.queue, at, coolingAddr{addr, k.until})
}

// expire ends what quarantine is over.
func (f *family) expire(now time.Time) {
	for len(f.queue) > 0 && !f.queue[0].until.After(now) {
		head := f.queue[0]
		f.queue = f.queue[1:]
		if k, ok := f.held[head.addr]; ok && k.until.Equal(head.until) {
			f.drop(head.addr)
		}
	}
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
	seen := map[netip.Addr]bool{}
	for _, c := range f.queue {
		_, inside := s.number(c.addr)
		if k := f.held[c.addr]; inside && k.state == cooling && !seen[c.addr] {
			seen[c.addr] = true
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
