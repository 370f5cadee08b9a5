package allocator

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// A model is a numberSet that is obviously right: a sorted slice.
type model []uint64

func (m *model) has(n uint64) bool {
	_, ok := slices.BinarySearch(*m, n)
	return ok
}

func (m *model) add(n uint64) bool {
	i, ok := slices.BinarySearch(*m, n)
	if !ok {
		*m = slices.Insert(*m, i, n)
	}
	return !ok
}

func (m *model) addRun(r run) {
	for n := range r.count {
		m.add(r.first + n)
	}
}

func (m *model) remove(n uint64) bool {
	i, ok := slices.BinarySearch(*m, n)
	if ok {
		*m = slices.Delete(*m, i, i+1)
	}
	return ok
}

func (m *model) below(n uint64) uint64 {
	i, _ := slices.BinarySearch(*m, n)
	return uint64(i)
}

func (m *model) free(k uint64) uint64 {
	for _, n := range *m {
		if n > k {
			break
		}
		k++
	}
	return k
}

func (m *model) next(n uint64) (uint64, bool) {
	i, _ := slices.BinarySearch(*m, n)
	if i == len(*m) {
		return 0, false
	}
	return (*m)[i], true
}

// agree compares every answer of the set about n with those of the model.
func agree(t *testing.T, s, m numberSet, n, size uint64) {
	t.Helper()
	if got, want := s.has(n), m.has(n); got != want {
		t.Fatalf("has(%d) = %v, want %v", n, got, want)
	}
	if got, want := s.below(n), m.below(n); got != want {
		t.Fatalf("below(%d) = %d, want %d", n, got, want)
	}
	got, gotOK := s.next(n)
	want, wantOK := m.next(n)
	if gotOK != wantOK || gotOK && got != want {
		t.Fatalf("next(%d) = %d, %v, want %d, %v", n, got, gotOK, want, wantOK)
	}
	if free := size - m.below(size); free > 0 {
		k := n % free
		if got, want := s.free(k), m.free(k); got != want {
			t.Fatalf("free(%d) = %d, want %d", k, got, want)
		}
	}
}

// check verifies what must hold in every node below nd.
func (nd *runNode) check(t *testing.T, root bool) {
	t.Helper()
	if !root && len(nd.entries) == 0 || len(nd.entries) > maxEntries {
		t.Fatalf("a node has %d entries", len(nd.entries))
	}
	for i, e := range nd.entries {
		if e.used == 0 || i > 0 && nd.entries[i-1].first >= e.first {
			t.Fatalf("entry %d of %v is empty or out of order", i, nd.entries)
		}
		if e.kid == nil {
			continue
		}
		if sum := e.kid.summary(); sum != e {
			t.Fatalf("entry is %v, the node below sums up to %v", e, sum)
		}
		e.kid.check(t, false)
	}
}

func TestNumberSetsAgreeWithModel(t *testing.T) {
	const size = 5000 // more than a block of a bitmap, and a tree of two levels
	sets := map[string]func() numberSet{
		"dense":  func() numberSet { return newDenseSet(size) },
		"sparse": func() numberSet { return &sparseSet{} },
	}
	for name, newSet := range sets {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, 2))
			s, m := newSet(), &model{}
			for step := range 12000 {
				// Fill for a while, then empty, so that nodes split and join.
				n := r.Uint64N(size)
				fill := step/4000%2 == 0
				if fill == (r.IntN(10) > 0) {
					if got, want := s.add(n), m.add(n); got != want {
						t.Fatalf("add(%d) = %v, want %v", n, got, want)
					}
				} else if got, want := s.remove(n), m.remove(n); got != want {
					t.Fatalf("remove(%d) = %v, want %v", n, got, want)
				}
				agree(t, s, m, n, size)
				agree(t, s, m, r.Uint64N(size), size)
			}
			if sparse, ok := s.(*sparseSet); ok && sparse.root != nil {
				sparse.root.check(t, true)
			}
			for n := range uint64(size) {
				s.remove(n)
			}
			if got := s.below(size); got != 0 {
				t.Errorf("%d numbers are left after all were removed", got)
			}
		})
	}
}

func TestSparseSetAtTheEdges(t *testing.T) {
	const last = math.MaxUint64 - 1 // the greatest number of an IPv6 /64
	s := &sparseSet{}
	for _, n := range []uint64{last, 0, last - 1, 1, 1 << 63, 1<<63 - 1} {
		if !s.add(n) || s.add(n) {
			t.Errorf("add(%d) twice: want true, then false", n)
		}
	}
	if got := s.below(math.MaxUint64); got != 6 {
		t.Errorf("below(max) = %d, want 6", got)
	}
	if got := s.free(0); got != 2 {
		t.Errorf("free(0) = %d, want 2", got)
	}
	// 2^64-1 numbers, 6 used: the last free one has index 2^64-1-6-1.
	if got, want := s.free(math.MaxUint64-7), uint64(last-2); got != want {
		t.Errorf("free(last) = %d, want %d", got, want)
	}
	if got, ok := s.next(1<<63 + 1); !ok || got != last-1 {
		t.Errorf("next(2^63+1) = %d, %v, want %d", got, ok, uint64(last-1))
	}
}

// FuzzNumberSets replays operations on both representations and on the model.
func FuzzNumberSets(f *testing.F) {
	f.Add([]byte{0, 1, 0, 2, 0, 0, 1, 1})
	f.Add([]byte{0, 255, 0, 254, 1, 255, 0, 255, 1, 254})
	f.Fuzz(func(t *testing.T, ops []byte) {
		const size = 256
		dense, sparse, m := newDenseSet(size), &sparseSet{}, &model{}
		for i := 0; i+1 < len(ops); i += 2 {
			n := uint64(ops[i+1])
			for _, s := range []numberSet{dense, sparse} {
				reference := slices.Clone(*m)
				apply := func(x numberSet) bool {
					if ops[i]%2 == 0 {
						return x.add(n)
					}
					return x.remove(n)
				}
				if got, want := apply(s), apply(&reference); got != want {
					t.Fatalf("step %d on %T: got %v, want %v", i/2, s, got, want)
				}
				agree(t, s, &reference, n, size)
			}
			if ops[i]%2 == 0 {
				m.add(n)
			} else {
				m.remove(n)
			}
		}
		if sparse.root != nil {
			sparse.root.check(t, true)
		}
	})
}
