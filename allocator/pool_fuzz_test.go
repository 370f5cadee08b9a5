package allocator_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/vipkit/vipkit/allocator"
)

// A poolModel is a pool that is obviously right: maps, and loops over all
// addresses.
type poolModel struct {
	size     uint64
	offset   uint64
	held     map[uint64]allocator.Owner
	excluded map[uint64]bool
	cooling  map[uint64]time.Time
	now      time.Time
}

const modelQuarantine = 10 * time.Second

func (m *poolModel) claim(n uint64, o allocator.Owner, again bool) error {
	switch holder, held := m.held[n]; {
	case n >= m.size:
		return allocator.ErrOutOfRange
	case m.excluded[n]:
		return allocator.ErrReserved
	case held && again && holder == o:
		return nil
	case held:
		return allocator.ErrTaken
	}
	delete(m.cooling, n)
	m.held[n] = o
	return nil
}

func (m *poolModel) release(n uint64, o allocator.Owner) error {
	holder, held := m.held[n]
	switch {
	case !held:
		return nil
	case holder != o:
		return allocator.ErrNotOwner
	}
	delete(m.held, n)
	m.cooling[n] = m.now.Add(modelQuarantine)
	return nil
}

// free reports whether n can be picked.
func (m *poolModel) free(n uint64) bool {
	_, held := m.held[n]
	until, cooling := m.cooling[n]
	return n < m.size && !held && !m.excluded[n] && (!cooling || !until.After(m.now))
}

// stats counts the band from one number to another.
func (m *poolModel) stats(from, to uint64) allocator.Stats {
	s := allocator.Stats{Size: to - from}
	for n := from; n < to; n++ {
		_, held := m.held[n]
		switch {
		case held:
			s.Used++
		case m.excluded[n]:
			s.Excluded++
		case m.free(n):
			s.Free++
		default:
			s.Quarantined++
		}
	}
	return s
}

// pick gives a, which a pool picked, to o, or says why it was wrong.
func (m *poolModel) pick(n uint64, o allocator.Owner, err error) error {
	dynamic, static := m.stats(m.offset, m.size).Free, m.stats(0, m.offset).Free
	switch {
	case errors.Is(err, allocator.ErrFull) && dynamic+static == 0:
		return nil
	case err != nil:
		return fmt.Errorf("%w with %d addresses free", err, dynamic+static)
	case !m.free(n):
		return fmt.Errorf("number %d is not free", n)
	case n < m.offset && dynamic > 0:
		return fmt.Errorf("number %d is of the static band, the dynamic one has %d", n, dynamic)
	}
	delete(m.cooling, n)
	m.held[n] = o
	return nil
}

// FuzzPool replays operations on a Pool and on a model. Three bytes are one
// operation: what, which address, whose.
func FuzzPool(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 0, 1, 2, 1, 0, 3, 1, 0})
	f.Add([]byte{2, 0, 0, 2, 0, 1, 3, 20, 0, 4, 3, 0, 5, 7, 0})
	f.Fuzz(func(t *testing.T, ops []byte) {
		m := &poolModel{
			size: 30, offset: 16, // a /27
			held: map[uint64]allocator.Owner{}, excluded: map[uint64]bool{}, cooling: map[uint64]time.Time{},
		}
		at := func(n uint64) netip.Addr { return netip.AddrFrom4([4]byte{10, 96, 0, 1 + byte(n)}) }
		p := newPool(t, "10.96.0.0/27", allocator.Options{
			Quarantine: modelQuarantine, Now: func() time.Time { return m.now },
		})
		for i := 0; i+2 < len(ops); i += 3 {
			n, who := uint64(ops[i+1])%32, owner(fmt.Sprint("svc", ops[i+2]%3))
			var got, want error
			switch ops[i] % 6 {
			case 0:
				got, want = p.Claim(at(n), who), m.claim(n, who, false)
			case 1:
				got, want = p.Reserve(at(n), who), m.claim(n, who, true)
			case 2:
				a, err := p.Pick(who)
				picked := uint64(0)
				if err == nil {
					picked = uint64(a.As4()[3]) - 1
				}
				got = m.pick(picked, who, err)
			case 3:
				got, want = p.Release(at(n), who), m.release(n, who)
			case 4:
				m.now = m.now.Add(time.Duration(n) * time.Second)
			case 5:
				_, held := m.held[n]
				switch got = p.Exclude(at(n)); {
				case n >= m.size:
					want = allocator.ErrOutOfRange
				case held:
					want = allocator.ErrTaken
				default:
					m.excluded[n] = true
					delete(m.cooling, n)
				}
			}
			if !errors.Is(got, want) {
				t.Fatalf("step %d, operation %d on %s by %s: %v, want %v", i/3, ops[i]%6, at(n), who, got, want)
			}
			for band, want := range map[allocator.Band]allocator.Stats{
				allocator.Static: m.stats(0, m.offset), allocator.Dynamic: m.stats(m.offset, m.size),
			} {
				if got := p.BandStats(band); got != want {
					t.Fatalf("step %d: %s band %+v, want %+v", i/3, band, got, want)
				}
			}
		}
	})
}
