package endpoints

import (
	"cmp"
	"iter"
	"slices"
)

// A Set holds the endpoints of one Service. It is immutable and safe for
// concurrent use. A nil Set is empty.
type Set struct {
	lists []list // sorted by key, no empty list
}

type list struct {
	key Key
	eps []*Endpoint // sorted by Compare, one per address
}

// NewSet returns a Set of the given endpoints, for tests and for sources other
// than EndpointSlices. Of several endpoints with one address under one key the
// best by [Better] is kept, the first if they are equal, with the node, hints and Ext that
// only others have. NewSet copies the endpoints, but not their [Hints], which must be sorted and not be changed any
// more. It returns nil if there are no endpoints.
func NewSet(eps map[Key][]Endpoint) *Set {
	lists := make([]list, 0, len(eps))
	for k, in := range eps {
		l := list{key: k, eps: make([]*Endpoint, len(in))}
		for i := range in {
			e := in[i]
			l.eps[i] = &e
		}
		lists = append(lists, l)
	}
	return newSet(lists, nil)
}

// newSet makes a Set of lists in any order, whose endpoints are in the order in which
// they were found. Lists with equal keys are joined. An endpoint that is completed is that of
// old if it is there. newSet takes over the lists, and returns nil if there are no endpoints.
func newSet(lists []list, old *Set) *Set {
	slices.SortStableFunc(lists, func(a, b list) int { return a.key.Compare(b.key) })
	kept := lists[:0]
	for _, l := range lists {
		switch n := len(kept); {
		case len(l.eps) == 0:
		case n > 0 && kept[n-1].key == l.key:
			kept[n-1].eps = append(kept[n-1].eps, l.eps...)
		default:
			kept = append(kept, l)
		}
	}
	if len(kept) == 0 {
		return nil
	}
	for i := range kept {
		kept[i].eps = sortUnique(kept[i].eps, old.Get(kept[i].key))
	}
	return &Set{lists: slices.Clip(kept)}
}

// sortUnique sorts eps in place and keeps one endpoint of each address: the best one, of
// equally good ones the first, with what only others know.
func sortUnique(eps, old []*Endpoint) []*Endpoint {
	slices.SortStableFunc(eps, func(a, b *Endpoint) int {
		if a.Addr != b.Addr {
			return Compare(a, b)
		}
		return compareState(a, b)
	})
	n := 0
	for _, e := range eps[1:] {
		if e.Addr != eps[n].Addr {
			n++
			eps[n] = e
			continue
		}
		if c := complete(eps[n], e); c != eps[n] {
			eps[n] = cmp.Or(known(old, c), c)
		}
	}
	clear(eps[n+1:])
	return slices.Clip(eps[:n+1])
}

// known returns the endpoint of old that equals e, nil if there is none.
func known(old []*Endpoint, e *Endpoint) *Endpoint {
	if i := search(old, e.Addr); i < len(old) && Equal(old[i], e) {
		return old[i]
	}
	return nil
}

// Get returns the endpoints under k, sorted by [Compare], one per address; nil
// if there are none. The caller must not change the slice.
func (s *Set) Get(k Key) []*Endpoint {
	if s == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(s.lists, k, func(l list, k Key) int { return l.key.Compare(k) })
	if !ok {
		return nil
	}
	return s.lists[i].eps
}

// All yields every key with its endpoints, in the order of [Key.Compare]. The
// caller must not change the slices.
func (s *Set) All() iter.Seq2[Key, []*Endpoint] {
	return func(yield func(Key, []*Endpoint) bool) {
		if s == nil {
			return
		}
		for _, l := range s.lists {
			if !yield(l.key, l.eps) {
				return
			}
		}
	}
}

// Equal reports whether both Sets have the same keys with equal endpoints, see
// [Equal]. It costs little where they share endpoints.
func (s *Set) Equal(o *Set) bool {
	if s == o {
		return true
	}
	if s == nil || o == nil {
		return s.empty() && o.empty()
	}
	return slices.EqualFunc(s.lists, o.lists, func(a, b list) bool {
		return a.key == b.key && slices.EqualFunc(a.eps, b.eps, Equal)
	})
}

// size returns the number of endpoints.
func (s *Set) size() int {
	n := 0
	for _, eps := range s.All() {
		n += len(eps)
	}
	return n
}

func (s *Set) empty() bool { return s == nil || len(s.lists) == 0 }
