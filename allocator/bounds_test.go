package allocator_test

import (
	"context"
	"errors"
	"net/netip"
	"runtime"
	"testing"
	"time"

	"github.com/vipkit/vipkit/allocator"
)

// TestMemoryWithoutPicks repeats what leaves something to be forgotten, where
// nobody picks. Each round left about 35 bytes or more; the bound is a tenth of
// that, for the noise of a test binary's heap.
func TestMemoryWithoutPicks(t *testing.T) {
	const rounds = 100_000
	ctx, x := t.Context(), addr("10.0.0.5")
	for _, step := range []time.Duration{time.Second, 0} { // a clock that runs, and one that stands
		now := time.Unix(1000, 0)
		opts := allocator.Options{Quarantine: time.Second, Now: func() time.Time {
			now = now.Add(step)
			return now
		}}
		multi := func(store allocator.Store) *allocator.MultiCIDR {
			m := allocator.NewMultiCIDR(store, opts)
			addCIDR(t, m, "10.0.0.0/24")
			return m
		}
		pool, ports, m := newPool(t, "10.0.0.0/24", opts), newPorts(t, "30000-32767", opts), multi(allocator.NewMemoryStore(nil))
		wide := newPool(t, "fd00::/64", opts)
		next := addr("fd00::1")
		taken := allocator.NewMemoryStore(nil)
		wantError(t, "Create", taken.Create(ctx, x, owner("db")), nil)
		refused := multi(taken)
		tests := map[string]func() error{
			"Pool":     func() error { return errors.Join(pool.Claim(x, owner("a")), pool.Release(x, owner("a"))) },
			"PortPool": func() error { return errors.Join(ports.Claim(30001, owner("a")), ports.Release(30001, owner("a"))) },
			"MultiCIDR": func() error {
				return errors.Join(m.Claim(ctx, x, owner("a")), m.Release(ctx, x, owner("a")))
			},
			"MultiCIDR, refused claims": func() error {
				if err := refused.Claim(ctx, x, owner("a")); !errors.Is(err, allocator.ErrTaken) {
					return err
				}
				return nil
			},
		}
		if step > 0 { // as many as were released in a second stay in any case
			tests["a wide Pool, one address after the other"] = func() error {
				next = next.Next()
				return errors.Join(wide.Claim(next, owner("a")), wide.Release(next, owner("a")))
			}
		}
		for name, round := range tests {
			t.Run("fault F25 "+name+", a clock with steps of "+step.String(), func(t *testing.T) {
				err, more := heapOf(func() error {
					for range rounds {
						if err := round(); err != nil {
							return err
						}
					}
					return nil
				})
				wantError(t, "a round", err, nil)
				if more > 3.5*rounds {
					t.Errorf("%.0f KiB more after %d rounds", more/1024, rounds)
				}
			})
		}
		runtime.KeepAlive([]any{pool, ports, m, wide, refused})
	}
}

// A panickingStore panics in calls of one kind, while told to.
type panickingStore struct {
	allocator.Store
	create, remove, list bool
}

func (s *panickingStore) Create(ctx context.Context, a netip.Addr, o allocator.Owner) error {
	if s.create {
		panic("create")
	}
	return s.Store.Create(ctx, a, o)
}

func (s *panickingStore) Delete(ctx context.Context, a netip.Addr, o allocator.Owner) error {
	if s.remove {
		panic("delete")
	}
	return s.Store.Delete(ctx, a, o)
}

func (s *panickingStore) List(ctx context.Context) ([]allocator.Record, error) {
	if s.list {
		panic("list")
	}
	return s.Store.List(ctx)
}

// panics runs f and checks that it panics.
func panics(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	f()
}

func TestPanickingStore(t *testing.T) {
	sources := map[string]func(t *testing.T, store allocator.Store) allocator.Source[netip.Addr]{
		"MultiCIDR": func(t *testing.T, store allocator.Store) allocator.Source[netip.Addr] {
			t.Helper()
			m := allocator.NewMultiCIDR(store, allocator.Options{})
			addCIDR(t, m, raceRange)
			return m.Source(v4)
		},
		"WithStore": func(t *testing.T, store allocator.Store) allocator.Source[netip.Addr] {
			t.Helper()
			return allocator.WithStore(newPool(t, raceRange, allocator.Options{}).Source(), store)
		},
	}
	for name, source := range sources {
		t.Run("fault F26 a store that panics keeps no address: "+name, func(t *testing.T) {
			ctx := t.Context()
			store := &panickingStore{Store: allocator.NewMemoryStore(nil), create: true}
			s := source(t, store)
			for range 14 {
				panics(t, func() { _, _ = s.Pick(ctx, owner("a")) })
				panics(t, func() { _ = s.Claim(ctx, addr(five), owner("a")) })
			}
			store.create = false
			picked := map[netip.Addr]bool{}
			for range 14 {
				a, err := s.Pick(ctx, owner("a"))
				wantError(t, "Pick", err, nil)
				picked[a] = true
			}
			if len(picked) != 14 {
				t.Errorf("%d addresses of 14", len(picked))
			}
			store.remove = true
			panics(t, func() { _ = s.Release(ctx, addr(five), owner("a")) })
			store.remove = false
			wantError(t, "still held", s.Claim(ctx, addr(five), owner("b")), allocator.ErrTaken)
			wantError(t, "Release", s.Release(ctx, addr(five), owner("a")), nil)
			wantError(t, "Claim", s.Claim(ctx, addr(five), owner("b")), nil)
		})
	}
	t.Run("fault F26 a Refresh that panics notes no changes for ever", func(t *testing.T) {
		ctx := t.Context()
		store := &panickingStore{Store: allocator.NewMemoryStore(nil), list: true}
		m := allocator.NewMultiCIDR(store, allocator.Options{})
		addCIDR(t, m, raceRange)
		panics(t, func() { _ = m.Refresh(ctx) })
		// Were it to note this, the next Refresh would keep it.
		wantError(t, "Claim", m.Claim(ctx, addr(five), owner("a")), nil)
		wantError(t, "Delete", store.Delete(ctx, addr(five), owner("a")), nil)
		store.list = false
		wantError(t, "Refresh", m.Refresh(ctx), nil)
		if got := m.Ranges(v4)[0].Stats.Used; got != 0 {
			t.Errorf("%d addresses in use", got)
		}
	})
}

func TestPanickingRand(t *testing.T) {
	ctx := t.Context()
	broken := false
	opts := allocator.Options{Rand: func(uint64) uint64 {
		if broken {
			panic("rand")
		}
		return 0
	}}
	pool := newPool(t, raceRange, opts)
	m := allocator.NewMultiCIDR(allocator.NewMemoryStore(nil), opts)
	addCIDR(t, m, raceRange)
	for name, s := range map[string]allocator.Source[netip.Addr]{"Pool": pool.Source(), "MultiCIDR": m.Source(v4)} {
		t.Run("fault F26 a dry run that panics hides nothing: "+name, func(t *testing.T) {
			dry := s.DryRun(allocator.Truthful)
			wantError(t, "Claim", dry.Claim(ctx, addr(five), owner("a")), nil)
			broken = true
			panics(t, func() { _, _ = dry.Pick(ctx, owner("a")) })
			panics(t, func() { _, _ = s.Pick(ctx, owner("a")) })
			broken = false
			for range 14 {
				_, err := s.Pick(ctx, owner("a"))
				wantError(t, "Pick", err, nil)
			}
		})
	}
}

// A panickingSource panics when value is released.
type panickingSource[T comparable] struct {
	allocator.Source[T]
	value T
}

func (s panickingSource[T]) Release(ctx context.Context, v T, o allocator.Owner) error {
	if v == s.value {
		panic("release")
	}
	return s.Source.Release(ctx, v, o)
}

func TestPanickingRelease(t *testing.T) {
	newTxn := func(t *testing.T) (*cluster, *allocator.Services) {
		t.Helper()
		c := newCluster(t, "46")
		return c, &allocator.Services{
			Addresses: c.services.Addresses,
			Ports:     panickingSource[uint16]{c.services.Ports, 30087},
		}
	}
	const left = "30087=ns1/web"
	t.Run("fault F26 a rollback gives back what it can", func(t *testing.T) {
		c, services := newTxn(t)
		txn, err := services.Apply(t.Context(), c.plan(t, nil, rich()))
		wantError(t, "Apply", err, nil)
		panics(t, func() { _ = txn.Rollback(t.Context()) })
		if got := c.state(); got != left {
			t.Errorf("in use: %s, want %s", got, left)
		}
	})
	t.Run("fault F26 a commit releases what it can", func(t *testing.T) {
		c, services := newTxn(t)
		stored := c.change(t, nil, rich())
		txn, err := services.Apply(t.Context(), c.plan(t, stored, nil))
		wantError(t, "Apply", err, nil)
		panics(t, func() { _ = txn.Commit(t.Context()) })
		if got := c.state(); got != left {
			t.Errorf("in use: %s, want %s", got, left)
		}
	})
}
