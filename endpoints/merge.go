package endpoints

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// A serviceState is what the tracker knows of one Service.
type serviceState struct {
	name types.NamespacedName

	// slices are sorted by name. One that is gone stays, without a set, until
	// the next merge.
	slices []*sliceState

	// merged is the union of what the slices had at the last merge.
	merged *Set

	// changed is the sequence number of the last change since the last Take, 0 if there is none; triggers are when
	// those changes were caused.
	changed  uint64
	triggers []time.Time
}

// A sliceState is what one slice has: now, and in serviceState.merged.
type sliceState struct {
	name        string
	set, merged *Set

	// at is when the slice last changed, as it says itself; retimed that it said
	// something else at the last merge.
	at      time.Time
	retimed bool
}

// slice returns the state of a slice, a new one if it is not known.
func (s *serviceState) slice(name string) *sliceState {
	i, ok := slices.BinarySearchFunc(s.slices, name, func(st *sliceState, n string) int {
		return strings.Compare(st.name, n)
	})
	if !ok {
		s.slices = slices.Insert(s.slices, i, &sliceState{name: name})
	}
	return s.slices[i]
}

// merge brings s.merged up to date. It resolves only the addresses that differ
// in slices that changed, and looks each of them up in the other slices, so
// that its cost follows the change but for copying pointers.
func (s *serviceState) merge() {
	stale := s.prune()
	switch {
	case !stale:
		return
	case len(s.slices) == 1:
		s.adopt(s.slices[0])
	default:
		s.patch()
	}
	for _, st := range s.slices {
		st.merged, st.retimed = st.set, false
	}
	s.slices = slices.DeleteFunc(s.slices, (*sliceState).gone)
}

func (st *sliceState) gone() bool { return st.set == nil }

// prune removes slices that are gone and not in s.merged. It reports whether any other
// slice differs from what is in s.merged, or has another time.
func (s *serviceState) prune() bool {
	stale := false
	s.slices = slices.DeleteFunc(s.slices, func(st *sliceState) bool {
		stale = stale || st.set != st.merged || st.retimed
		return st.gone() && st.merged == nil
	})
	return stale
}

// adopt makes the set of the only slice the merged one, which most Services
// have for all their life: both are then the same memory.
func (s *serviceState) adopt(st *sliceState) {
	if s.merged.Equal(st.set) {
		st.set = s.merged
	}
	s.merged = st.set
}

// patch replaces what is stale in s.merged.
func (s *serviceState) patch() {
	stale := s.stale()
	lists, changed := maps.Collect(s.merged.All()), false
	for k, addrs := range stale {
		slices.SortFunc(addrs, compareText)
		if eps, ok := replace(lists[k], s.winners(k, slices.Compact(addrs))); ok {
			lists[k], changed = eps, true
		}
	}
	if changed {
		s.merged = joined(lists)
	}
}

// joined returns the Set of lists that are sorted, nil if all are empty.
func joined(lists map[Key][]*Endpoint) *Set {
	merged := &Set{lists: make([]list, 0, len(lists))}
	for _, k := range slices.SortedFunc(maps.Keys(lists), Key.Compare) {
		if len(lists[k]) > 0 {
			merged.lists = append(merged.lists, list{key: k, eps: lists[k]})
		}
	}
	if merged.empty() {
		return nil
	}
	return merged
}

// stale returns the addresses, in no order, whose endpoint differs between what a
// slice has and what it had. If slices had endpoints in common, a new time of one may
// change which of them counts.
func (s *serviceState) stale() map[Key][]netip.AddrPort {
	stale, common := make(map[Key][]netip.AddrPort), s.common()
	for _, st := range s.slices {
		if common && st.retimed {
			for k, eps := range st.set.All() {
				stale[k] = appendDifferent(stale[k], nil, eps)
			}
		}
		if st.set == st.merged {
			continue
		}
		for k, eps := range st.merged.All() {
			stale[k] = appendDifferent(stale[k], eps, st.set.Get(k))
		}
		for k, eps := range st.set.All() {
			if st.merged.Get(k) == nil {
				stale[k] = appendDifferent(stale[k], nil, eps)
			}
		}
	}
	return stale
}

// common reports whether slices had an endpoint in common at the last merge.
func (s *serviceState) common() bool {
	n := 0
	for _, st := range s.slices {
		n += st.merged.size()
	}
	return n != s.merged.size()
}

// contested reports whether another slice says something else of an endpoint that st has.
func (s *serviceState) contested(st *sliceState) bool {
	for k, eps := range st.set.All() {
		won := make([]winner, len(eps))
		for i, e := range eps {
			won[i] = winner{addr: e.Addr, first: claim{ep: e}}
		}
		differs := false
		for _, o := range s.slices {
			intersect(won, o.set.Get(k), func(w *winner, e *Endpoint) { differs = differs || !Equal(w.first.ep, e) })
		}
		if differs {
			return true
		}
	}
	return false
}

// appendDifferent appends every address whose endpoint is not equal in a and b.
func appendDifferent(addrs []netip.AddrPort, a, b []*Endpoint) []netip.AddrPort {
	for len(a) > 0 && len(b) > 0 {
		switch c := Compare(a[0], b[0]); {
		case c < 0:
			addrs, a = append(addrs, a[0].Addr), a[1:]
		case c > 0:
			addrs, b = append(addrs, b[0].Addr), b[1:]
		default:
			if !Equal(a[0], b[0]) {
				addrs = append(addrs, a[0].Addr)
			}
			a, b = a[1:], b[1:]
		}
	}
	for _, e := range slices.Concat(a, b) {
		addrs = append(addrs, e.Addr)
	}
	return addrs
}

// A winner is the endpoint that counts for an address, nil if there is none.
type winner struct {
	addr netip.AddrPort
	ep   *Endpoint

	// first and more are what the slices say. There is rarely more.
	first claim
	more  []claim
}

// claimed adds a claim.
func (w *winner) claimed(c claim) {
	if w.first.ep == nil {
		w.first = c
		return
	}
	w.more = append(w.more, c)
}

// resolve chooses the preferred claim and adds what only others know. Of claims that differ
// in Ext only, the one that was added first counts.
func (w *winner) resolve() {
	w.ep = w.first.ep
	if len(w.more) == 0 {
		return
	}
	all := append([]claim{w.first}, w.more...)
	slices.SortStableFunc(all, comparePreferred)
	w.ep = all[0].ep
	for _, c := range all[1:] {
		w.ep = complete(w.ep, c.ep)
	}
}

// winners finds what counts for each of addrs, which are sorted. Slices are asked in the order
// of their names.
func (s *serviceState) winners(k Key, addrs []netip.AddrPort) []winner {
	won := make([]winner, len(addrs))
	for i, a := range addrs {
		won[i].addr = a
	}
	for _, st := range s.slices {
		intersect(won, st.set.Get(k), func(w *winner, e *Endpoint) { w.claimed(claim{ep: e, at: st.at}) })
	}
	for i := range won {
		won[i].resolve()
	}
	return won
}

// intersect calls f for each address that is in both sorted lists. It walks the
// shorter one and searches the longer one.
func intersect(won []winner, eps []*Endpoint, f func(*winner, *Endpoint)) {
	if len(eps) < len(won) {
		for _, e := range eps {
			i, ok := slices.BinarySearchFunc(won, e.Addr, func(w winner, a netip.AddrPort) int {
				return compareText(w.addr, a)
			})
			if ok {
				f(&won[i], e)
			}
		}
		return
	}
	for i := range won {
		if j := search(eps, won[i].addr); j < len(eps) && eps[j].Addr == won[i].addr {
			f(&won[i], eps[j])
		}
	}
}

// replace returns eps with the winners in the place of what has their addresses;
// ok is false if that is eps itself. A winner that equals what is there changes
// nothing: consumers compare endpoints by pointer first.
func replace(eps []*Endpoint, won []winner) (out []*Endpoint, ok bool) {
	size, changed := len(eps), false
	intersect(won, eps, func(w *winner, e *Endpoint) {
		size--
		if Equal(w.ep, e) {
			w.ep = e
			return
		}
		changed = true
	})
	for _, w := range won {
		if w.ep != nil {
			size++
		}
	}
	if !changed && size == len(eps) {
		return nil, false
	}
	return splice(make([]*Endpoint, 0, size), eps, won), true
}

// splice appends eps with the winners in their places to out.
func splice(out, eps []*Endpoint, won []winner) []*Endpoint {
	for _, w := range won {
		i := search(eps, w.addr)
		out = append(out, eps[:i]...)
		eps = eps[i:]
		if len(eps) > 0 && eps[0].Addr == w.addr {
			eps = eps[1:]
		}
		if w.ep != nil {
			out = append(out, w.ep)
		}
	}
	return append(out, eps...)
}
