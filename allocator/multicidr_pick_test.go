package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/vipkit/vipkit/allocator"
)

// A scriptedStore answers creations with one error after the other, then as the
// store below. It counts them.
type scriptedStore struct {
	allocator.Store
	answers []error
	calls   int
	after   func() // called after each answered creation
}

func (s *scriptedStore) Create(ctx context.Context, a netip.Addr, o allocator.Owner) error {
	s.calls++
	if s.calls <= len(s.answers) && s.answers[s.calls-1] != nil {
		return s.answers[s.calls-1]
	}
	return s.Store.Create(ctx, a, o)
}

func (s *scriptedStore) List(ctx context.Context) ([]allocator.Record, error) {
	list, err := s.Store.List(ctx)
	if s.after != nil {
		s.after()
	}
	return list, err
}

func TestCollisionAndHardError(t *testing.T) {
	forbidden := errors.New("forbidden")
	newScripted := func(answers ...error) *scriptedStore {
		return &scriptedStore{Store: allocator.NewMemoryStore(nil), answers: answers}
	}
	sources := map[string]func(store allocator.Store) allocator.Source[netip.Addr]{
		"MultiCIDR": func(store allocator.Store) allocator.Source[netip.Addr] {
			m := allocator.NewMultiCIDR(store, allocator.Options{})
			addCIDR(t, m, "10.96.0.0/28")
			return m.Source(v4)
		},
		"WithStore": func(store allocator.Store) allocator.Source[netip.Addr] {
			return allocator.WithStore(newPool(t, "10.96.0.0/28", allocator.Options{}).Source(), store)
		},
	}
	for name, source := range sources {
		t.Run("#40 two collisions, then a hard error: "+name, func(t *testing.T) {
			store := newScripted(allocator.ErrTaken, allocator.ErrTaken, forbidden)
			_, err := source(store).Pick(t.Context(), owner("web"))
			wantError(t, "Pick", err, forbidden)
			if errors.Is(err, allocator.ErrFull) || store.calls != 3 {
				t.Errorf("Pick = %v after %d calls, want 3", err, store.calls)
			}
			var e *allocator.Error
			if !errors.As(err, &e) || e.Op != "pick" {
				t.Errorf("the error %v does not say what was done", err)
			}
		})
		t.Run("#40 two collisions, then success: "+name, func(t *testing.T) {
			store := newScripted(allocator.ErrTaken, allocator.ErrTaken)
			a, err := source(store).Pick(t.Context(), owner("web"))
			if _, ok, _ := store.Get(t.Context(), a); err != nil || !ok {
				t.Errorf("Pick = %s, %v, in the store %v", a, err, ok)
			}
		})
		t.Run("#42 collisions only: one lap, then full: "+name, func(t *testing.T) {
			answers := make([]error, 100)
			for i := range answers {
				answers[i] = allocator.ErrTaken
			}
			store := newScripted(answers...)
			_, err := source(store).Pick(t.Context(), owner("web"))
			wantError(t, "Pick", err, allocator.ErrFull)
			if store.calls != 14 {
				t.Errorf("%d calls, want one for each of 14 addresses", store.calls)
			}
		})
		t.Run("#40 a hard error leaves the address free: "+name, func(t *testing.T) {
			store := newScripted(forbidden, forbidden)
			s := source(store)
			wantError(t, "Claim", s.Claim(t.Context(), addr("10.96.0.3"), owner("web")), forbidden)
			_, err := s.Pick(t.Context(), owner("web"))
			wantError(t, "Pick", err, forbidden)
			for range 14 {
				if _, err := s.Pick(t.Context(), owner("web")); err != nil {
					t.Fatalf("Pick: %v", err)
				}
			}
			wantError(t, "Release", s.Release(t.Context(), addr("10.96.0.3"), owner("db")), allocator.ErrNotOwner)
			wantError(t, "Release", s.Release(t.Context(), addr("10.96.0.3"), owner("web")), nil)
			if a, err := s.Pick(t.Context(), owner("web")); err != nil || a != addr("10.96.0.3") {
				t.Errorf("Pick = %s, %v, want what was released", a, err)
			}
		})
		t.Run("4.6 a truthful dry run: "+name, func(t *testing.T) {
			store := allocator.NewMemoryStore(nil)
			s := source(store)
			for range 12 {
				if _, err := s.Pick(t.Context(), owner("web")); err != nil {
					t.Fatal(err)
				}
			}
			dry := s.DryRun(allocator.Truthful)
			first, err := dry.Pick(t.Context(), owner("db"))
			wantError(t, "Pick", err, nil)
			wantError(t, "Claim of the pick", dry.Claim(t.Context(), first, owner("db")), allocator.ErrTaken)
			wantError(t, "Claim out of range", dry.Claim(t.Context(), addr("10.97.0.1"), owner("db")), allocator.ErrOutOfRange)
			second, err := dry.Pick(t.Context(), owner("db"))
			wantError(t, "Pick", err, nil)
			_, err = dry.Pick(t.Context(), owner("db"))
			wantError(t, "Pick when full", err, allocator.ErrFull)
			wantError(t, "Release", dry.Release(t.Context(), second, owner("db")), nil)
			wantError(t, "Claim again", dry.Claim(t.Context(), second, owner("db")), nil)
			if got, _ := store.List(t.Context()); len(got) != 12 || first == second {
				t.Errorf("%d addresses in the store, want still 12", len(got))
			}
		})
	}
}

func TestTwoBooks(t *testing.T) {
	t.Run("#41 a bitmap that knows 2^16 addresses and a store for 2^20", func(t *testing.T) {
		first, err := allocator.NewBitmapPool(prefix("fd00:10:96::/108"), allocator.Options{})
		if err != nil {
			t.Fatal(err)
		}
		store := allocator.NewMemoryStore(nil)
		s := allocator.WithStore(first.Source(), store)
		for i := range 1000 {
			a, err := s.Pick(t.Context(), owner("web"))
			if err != nil {
				t.Fatalf("create %d: %v", i+1, err)
			}
			if _, ok, _ := store.Get(t.Context(), a); !ok || !first.Has(a) {
				t.Fatalf("%s is not in both books", a)
			}
		}
	})
	t.Run("#41 what the second refuses is given back to the first", func(t *testing.T) {
		first := newPool(t, "10.96.0.0/24", allocator.Options{})
		store := allocator.NewMemoryStore(nil)
		wantError(t, "Create", store.Create(t.Context(), addr("10.96.0.9"), owner("db")), nil)
		s := allocator.WithStore(first.Source(), store)
		wantError(t, "Claim", s.Claim(t.Context(), addr("10.96.0.9"), owner("web")), allocator.ErrTaken)
		if got := first.Stats().Used; got != 0 {
			t.Errorf("%d in use in the first book", got)
		}
	})
	t.Run("1.6 an upstream dry run is that of the first", func(t *testing.T) {
		s := allocator.WithStore(newPool(t, "10.96.0.0/24", allocator.Options{}).Source(), allocator.NewMemoryStore(nil))
		if a, err := s.DryRun(allocator.AsUpstream).Pick(t.Context(), owner("web")); err != nil || a != addr("10.96.0.0") {
			t.Errorf("Pick = %s, %v", a, err)
		}
	})
}

func TestMultiCIDRStats(t *testing.T) {
	t.Run("#39 3 and 5 used in two /28 with one store", func(t *testing.T) {
		m, store := newMulti(t, "10.96.0.0/28", "10.97.0.0/28", "fd00::/64")
		for i := range 3 {
			wantError(t, "Create", store.Create(t.Context(), addr(fmt.Sprintf("10.96.0.%d", i+1)), owner("web")), nil)
		}
		for i := range 5 {
			wantError(t, "Create", store.Create(t.Context(), addr(fmt.Sprintf("10.97.0.%d", i+1)), owner("web")), nil)
		}
		wantError(t, "Create", store.Create(t.Context(), addr("fd00::7"), owner("web")), nil)
		wantError(t, "Refresh", m.Refresh(t.Context()), nil)
		want := []allocator.RangeStatus{
			{Prefix: prefix("10.96.0.0/28"), Ready: true, Stats: allocator.Stats{Size: 14, Used: 3, Free: 11}},
			{Prefix: prefix("10.97.0.0/28"), Ready: true, Stats: allocator.Stats{Size: 14, Used: 5, Free: 9}},
		}
		for i, got := range m.Ranges(v4) {
			if got != want[i] {
				t.Errorf("range %d: %+v, want %+v", i, got, want[i])
			}
		}
		if got := m.Ranges(v6)[0].Stats; got.Free != math.MaxUint64-1 || got.Used != 1 {
			t.Errorf("IPv6 %+v, want all but one free", got)
		}
	})
	t.Run("2.3 overlapping ranges count common addresses both", func(t *testing.T) {
		m, _ := newMulti(t, "10.0.0.0/16", "10.0.1.0/24", "10.0.9.0/32")
		wantError(t, "Claim", m.Claim(t.Context(), addr("10.0.1.7"), owner("web")), nil)
		wantError(t, "Claim", m.Claim(t.Context(), addr("10.0.2.7"), owner("web")), nil)
		got := m.Ranges(v4)
		if got[0].Stats.Used != 2 || got[1].Stats.Used != 1 || got[1].Stats.Free != 253 || got[2].Stats.Size != 0 {
			t.Errorf("got %+v", got)
		}
	})
}

func TestMultiCIDRPicks(t *testing.T) {
	t.Run("2.3 a small range inside a static band does not give its addresses away", func(t *testing.T) {
		m, _ := newMulti(t, "10.0.0.0/16", "10.0.0.128/25")
		for range 2000 {
			a, err := m.Pick(t.Context(), v4, owner("web"))
			if err != nil || a.Compare(addr("10.0.1.0")) <= 0 {
				t.Fatalf("Pick = %s, %v, want none of 10.0.0.1-10.0.1.0", a, err)
			}
		}
	})
	t.Run("2.3 picks are weighted by what is free", func(t *testing.T) {
		m, _ := newMulti(t, "10.0.0.0/28", "10.1.0.0/24") // 14 and 238 dynamic addresses
		small := 0
		for range 3000 {
			a, err := m.Pick(t.Context(), v4, owner("web"))
			if err != nil {
				t.Fatal(err)
			}
			if prefix("10.0.0.0/28").Contains(a) {
				small++
			}
			wantError(t, "Release", m.Release(t.Context(), a, owner("web")), nil)
		}
		if small < 90 || small > 250 { // 167 expected, sigma 12.6; a coin would give 1500
			t.Errorf("%d of 3000 from the small range", small)
		}
	})
	t.Run("2.3 several /64 have more than 2^64 addresses", func(t *testing.T) {
		m, _ := newMulti(t, "fd00:1::/64", "fd00:2::/64", "fd00:3::/120")
		from := map[netip.Prefix]int{}
		for range 400 {
			a, err := m.Pick(t.Context(), v6, owner("web"))
			if err != nil {
				t.Fatal(err)
			}
			from[netip.PrefixFrom(a, 64).Masked()]++
		}
		if a, b := from[prefix("fd00:1::/64")], from[prefix("fd00:2::/64")]; a < 120 || b < 120 || a+b != 400 {
			t.Errorf("%d and %d, want 200 each, more or less", a, b)
		}
	})
	t.Run("6.2 quarantine", func(t *testing.T) {
		now := time.Unix(0, 0)
		m := allocator.NewMultiCIDR(allocator.NewMemoryStore(nil), allocator.Options{
			Quarantine: time.Minute, Now: func() time.Time { return now },
		})
		addCIDR(t, m, "10.0.0.0/30")
		exhaust(t, m)
		wantError(t, "Release", m.Release(t.Context(), addr("10.0.0.1"), owner("web")), nil)
		m.Forget(addr("10.0.0.1")) // the watch says it too, later
		_, err := m.Pick(t.Context(), v4, owner("db"))
		wantError(t, "Pick", err, allocator.ErrFull)
		if got, want := m.Ranges(v4)[0].Stats, (allocator.Stats{Size: 2, Used: 1, Quarantined: 1}); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
		wantError(t, "Refresh keeps it", m.Refresh(t.Context()), nil)
		now = now.Add(time.Minute)
		if a, err := m.Pick(t.Context(), v4, owner("db")); err != nil || a != addr("10.0.0.1") {
			t.Errorf("Pick = %s, %v", a, err)
		}
	})
}

func TestMultiCIDRRefresh(t *testing.T) {
	t.Run("2.3 what another process did is seen", func(t *testing.T) {
		m, store := newMulti(t, "10.0.0.0/30")
		wantError(t, "Create", store.Create(t.Context(), addr("10.0.0.1"), owner("db")), nil)
		wantError(t, "Refresh", m.Refresh(t.Context()), nil)
		if a, err := m.Pick(t.Context(), v4, owner("web")); err != nil || a != addr("10.0.0.2") {
			t.Errorf("Pick = %s, %v", a, err)
		}
		wantError(t, "Delete", store.Delete(t.Context(), addr("10.0.0.1"), owner("db")), nil)
		wantError(t, "Refresh", m.Refresh(t.Context()), nil)
		if a, err := m.Pick(t.Context(), v4, owner("web")); err != nil || a != addr("10.0.0.1") {
			t.Errorf("Pick = %s, %v", a, err)
		}
	})
	t.Run("2.3 what changes during a refresh wins over the list", func(t *testing.T) {
		store := &scriptedStore{Store: allocator.NewMemoryStore(nil)}
		m := allocator.NewMultiCIDR(store, allocator.Options{})
		addCIDR(t, m, "10.0.0.0/29")
		wantError(t, "Claim", m.Claim(t.Context(), addr("10.0.0.1"), owner("web")), nil)
		store.after = func() { // the list was read, and is not yet returned
			wantError(t, "Claim", m.Claim(t.Context(), addr("10.0.0.2"), owner("web")), nil)
			wantError(t, "Release", m.Release(t.Context(), addr("10.0.0.1"), owner("web")), nil)
		}
		wantError(t, "Refresh", m.Refresh(t.Context()), nil)
		if got, want := m.Ranges(v4)[0].Stats, (allocator.Stats{Size: 6, Used: 1, Free: 5}); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
	})
	t.Run("2.3 an address that collided is tried again after a while", func(t *testing.T) {
		now := time.Unix(0, 0)
		store := &scriptedStore{Store: allocator.NewMemoryStore(nil), answers: []error{allocator.ErrTaken}}
		m := allocator.NewMultiCIDR(store, allocator.Options{Now: func() time.Time { return now }})
		addCIDR(t, m, "10.0.0.0/30")
		if got := len(exhaust(t, m)); got != 1 {
			t.Errorf("%d picks, want 1", got)
		}
		now = now.Add(time.Minute)
		if got := len(exhaust(t, m)); got != 1 {
			t.Errorf("%d picks a minute later, want 1", got)
		}
	})
}

func TestMultiCIDRConcurrently(t *testing.T) {
	t.Run("2.3 64 goroutines in two processes, no address twice", func(t *testing.T) {
		store := allocator.NewMemoryStore(nil)
		processes := []*allocator.MultiCIDR{
			allocator.NewMultiCIDR(store, allocator.Options{}), allocator.NewMultiCIDR(store, allocator.Options{}),
		}
		for _, m := range processes {
			addCIDR(t, m, "10.0.0.0/23")
		}
		var wg sync.WaitGroup
		var mu sync.Mutex
		seen := map[netip.Addr]bool{}
		for g := range 64 {
			wg.Go(func() {
				for i := range 7 {
					m := processes[(g+i)%2]
					a, err := m.Pick(t.Context(), v4, owner("web"))
					mu.Lock()
					if err != nil || seen[a] {
						t.Errorf("Pick = %s, %v, seen %v", a, err, seen[a])
					}
					seen[a] = true
					mu.Unlock()
					if i == 3 {
						if err := m.Refresh(t.Context()); err != nil {
							t.Errorf("Refresh: %v", err)
						}
					}
				}
			})
		}
		wg.Wait()
	})
}
