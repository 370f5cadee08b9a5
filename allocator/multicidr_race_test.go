package allocator_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/vipkit/vipkit/allocator"
)

// A pausedStore runs a step once, after the store below has done its part of a
// call and before the call returns: what other goroutines and processes do then.
type pausedStore struct {
	allocator.Store
	created, deleted, listed func()
}

func once(step *func()) {
	if f := *step; f != nil {
		*step = nil
		f()
	}
}

func (s *pausedStore) Create(ctx context.Context, a netip.Addr, o allocator.Owner) error {
	err := s.Store.Create(ctx, a, o)
	once(&s.created)
	return err
}

func (s *pausedStore) Delete(ctx context.Context, a netip.Addr, o allocator.Owner) error {
	err := s.Store.Delete(ctx, a, o)
	once(&s.deleted)
	return err
}

func (s *pausedStore) List(ctx context.Context) ([]allocator.Record, error) {
	list, err := s.Store.List(ctx)
	once(&s.listed)
	return list, err
}

// A raceLab is a MultiCIDR of 10.0.0.0/28 over a pausedStore, and a clock.
type raceLab struct {
	*allocator.MultiCIDR
	t     *testing.T
	mem   *allocator.MemoryStore
	store *pausedStore
	now   time.Time
}

const raceRange = "10.0.0.0/28"

func newRaceLab(t *testing.T, quarantine time.Duration) *raceLab {
	t.Helper()
	l := &raceLab{t: t, mem: allocator.NewMemoryStore(nil), now: time.Unix(1000, 0)}
	l.store = &pausedStore{Store: l.mem}
	l.MultiCIDR = allocator.NewMultiCIDR(l.store, allocator.Options{
		Quarantine: quarantine, Now: func() time.Time { return l.now },
	})
	addCIDR(t, l.MultiCIDR, raceRange)
	return l
}

// must fails the test at once if a step of the scenario itself fails.
func (l *raceLab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// other claims the address in the store as another process does.
func (l *raceLab) other(name string) {
	l.t.Helper()
	l.must(l.mem.Create(l.t.Context(), addr(five), owner(name)))
}

// gone deletes an entry of the store as another process does.
func (l *raceLab) gone(text, name string) {
	l.t.Helper()
	l.must(l.mem.Delete(l.t.Context(), addr(text), owner(name)))
}

// watch delivers the entry of the store as a watch does.
func (l *raceLab) watch(name string) {
	l.Observe(allocator.Record{Addr: addr(five), Owner: owner(name)})
}

// wantInUse checks how many addresses are believed in use, and that the range
// can be deleted only if there is none.
func (l *raceLab) wantInUse(want uint64) {
	l.t.Helper()
	if got := l.Ranges(v4)[0].Stats.Used; got != want {
		l.t.Errorf("%d addresses in use, want %d", got, want)
	}
	if got := l.CanDelete(raceRange); got != (want == 0) {
		l.t.Errorf("CanDelete = %v with %d addresses in use", got, want)
	}
}

const five = "10.0.0.5"

func TestReleaseRaces(t *testing.T) {
	tests := []struct {
		name string
		run  func(ctx context.Context, l *raceLab)
		want uint64
	}{
		{"another owner claims it before Release returns", func(ctx context.Context, l *raceLab) {
			l.must(l.Claim(ctx, addr(five), owner("a")))
			l.store.deleted = func() { l.must(l.Claim(ctx, addr(five), owner("b"))) }
			l.must(l.Release(ctx, addr(five), owner("a")))
		}, 1},
		{"the same owner claims it again before Release returns", func(ctx context.Context, l *raceLab) {
			l.must(l.Claim(ctx, addr(five), owner("a")))
			l.store.deleted = func() { l.must(l.Claim(ctx, addr(five), owner("a"))) }
			l.must(l.Release(ctx, addr(five), owner("a")))
		}, 1},
		{"another process claims it, and the watch is faster than Release", func(ctx context.Context, l *raceLab) {
			l.must(l.Claim(ctx, addr(five), owner("a")))
			l.watch("a")
			l.store.deleted = func() {
				l.other("b")
				l.Forget(addr(five))
				l.watch("b")
			}
			l.must(l.Release(ctx, addr(five), owner("a")))
		}, 1},
		{"another process claims it, and the watch starts during Release", func(ctx context.Context, l *raceLab) {
			l.must(l.Claim(ctx, addr(five), owner("a")))
			l.store.deleted = func() {
				l.other("b")
				l.Forget(addr(five))
				l.watch("b")
			}
			l.must(l.Release(ctx, addr(five), owner("a")))
		}, 1},
		{"another process claims it, and the watch has the new entry only", func(ctx context.Context, l *raceLab) {
			l.must(l.Claim(ctx, addr(five), owner("a")))
			l.store.deleted = func() {
				l.other("b")
				l.watch("b")
			}
			l.must(l.Release(ctx, addr(five), owner("a")))
		}, 1},
		{"another process claims it, and a Refresh is faster than Release", func(ctx context.Context, l *raceLab) {
			l.must(l.Claim(ctx, addr(five), owner("a")))
			l.store.deleted = func() {
				l.other("b")
				l.must(l.Refresh(ctx))
			}
			l.must(l.Release(ctx, addr(five), owner("a")))
		}, 1},
		{"a Refresh with a list from before is faster than Release", func(ctx context.Context, l *raceLab) {
			l.must(l.Claim(ctx, addr(five), owner("a")))
			l.store.listed = func() { l.must(l.Release(ctx, addr(five), owner("a"))) }
			l.must(l.Refresh(ctx))
		}, 0},
		{"a release of what nobody has, during a claim", func(ctx context.Context, l *raceLab) {
			l.store.created = func() { l.must(l.Release(ctx, addr("10.0.0.6"), owner("a"))) }
			l.must(l.Claim(ctx, addr(five), owner("b")))
		}, 1},
		{"the watch is late: it tells of the former owner after the next claim", func(ctx context.Context, l *raceLab) {
			l.must(l.Claim(ctx, addr(five), owner("a")))
			l.must(l.Release(ctx, addr(five), owner("a")))
			l.must(l.Claim(ctx, addr(five), owner("b")))
			l.watch("a")
			l.wantInUse(1)
			l.Forget(addr(five))
		}, 1},
		{"the watch is late, then catches up", func(ctx context.Context, l *raceLab) {
			l.must(l.Claim(ctx, addr(five), owner("b")))
			l.Forget(addr(five))
			l.watch("b")
			l.now = l.now.Add(time.Hour)
		}, 1},
		{"what the watch denies and never confirms is free in the end", func(ctx context.Context, l *raceLab) {
			l.must(l.Claim(ctx, addr(five), owner("b")))
			l.gone(five, "b")
			l.Forget(addr(five))
			l.now = l.now.Add(time.Hour)
		}, 0},
		{"the watch tells of creation and deletion before Claim returns", func(ctx context.Context, l *raceLab) {
			l.store.created = func() {
				l.watch("b")
				l.gone(five, "b")
				l.Forget(addr(five))
			}
			l.must(l.Claim(ctx, addr(five), owner("b")))
		}, 0},
	}
	for _, tt := range tests {
		t.Run("fault F20 "+tt.name, func(t *testing.T) {
			l := newRaceLab(t, 0)
			tt.run(t.Context(), l)
			l.wantInUse(tt.want)
		})
	}
	t.Run("fault F20 the next claim is in the store, and not answered when Release returns", func(t *testing.T) {
		l, ctx := newRaceLab(t, 0), t.Context()
		l.must(l.Claim(ctx, addr(five), owner("a")))
		inStore, answer, claimed := make(chan struct{}), make(chan struct{}), make(chan error)
		l.store.created = func() {
			close(inStore)
			<-answer
		}
		l.store.deleted = func() {
			go func() { claimed <- l.Claim(ctx, addr(five), owner("b")) }()
			<-inStore
		}
		l.must(l.Release(ctx, addr(five), owner("a")))
		l.wantInUse(1)
		close(answer)
		l.must(<-claimed)
		l.wantInUse(1)
	})
	t.Run("fault F20 a refused claim does not end a quarantine", func(t *testing.T) {
		ctx, refused := t.Context(), errors.New("refused")
		store := &scriptedStore{Store: allocator.NewMemoryStore(nil), answers: []error{nil, refused}}
		m := allocator.NewMultiCIDR(store, allocator.Options{Quarantine: time.Minute})
		addCIDR(t, m, raceRange)
		wantError(t, "Claim", m.Claim(ctx, addr(five), owner("a")), nil)
		wantError(t, "Release", m.Release(ctx, addr(five), owner("a")), nil)
		wantError(t, "Claim", m.Claim(ctx, addr(five), owner("b")), refused)
		if got := m.Ranges(v4)[0].Stats; got.Quarantined != 1 {
			t.Errorf("Stats = %+v, want it quarantined", got)
		}
	})
}

func TestRefreshRaces(t *testing.T) {
	forbidden := errors.New("forbidden")
	tests := []struct {
		name       string
		quarantine time.Duration
		before     func(ctx context.Context, l *raceLab) // the listing
		during     func(ctx context.Context, l *raceLab)
		want       uint64
		doubtful   uint64 // how many of these are in use for a while only
	}{
		{
			"the mark of a collision expires", 0,
			func(ctx context.Context, l *raceLab) {
				l.other("db")
				wantError(l.t, "Claim", l.Claim(ctx, addr(five), owner("web")), allocator.ErrTaken)
				l.now = l.now.Add(2 * time.Minute)
			},
			func(ctx context.Context, l *raceLab) {
				a, err := l.Pick(ctx, v4, owner("web"))
				l.must(err)
				l.must(l.Release(ctx, a, owner("web")))
			}, 1, 0,
		},
		{
			"a quarantine expires that another process has overruled", time.Second,
			func(ctx context.Context, l *raceLab) {
				l.must(l.Claim(ctx, addr(five), owner("web")))
				l.must(l.Release(ctx, addr(five), owner("web")))
				l.other("db")
			},
			func(_ context.Context, l *raceLab) {
				l.now = l.now.Add(time.Minute)
				l.Ranges(v4)
			}, 1, 0,
		},
		{
			"another process has taken what is quarantined here", time.Hour,
			func(ctx context.Context, l *raceLab) {
				l.must(l.Claim(ctx, addr(five), owner("web")))
				l.must(l.Release(ctx, addr(five), owner("web")))
				l.other("db")
			},
			func(context.Context, *raceLab) {}, 1, 0,
		},
		{
			"a dry run picks", 0,
			func(ctx context.Context, l *raceLab) {},
			func(ctx context.Context, l *raceLab) {
				d := l.Source(v4).DryRun(allocator.Truthful)
				l.must(d.Claim(ctx, addr("10.0.0.6"), owner("web")))
				_, err := d.Pick(ctx, owner("web"))
				l.must(err)
			}, 0, 0,
		},
		{
			"a dry run picks that has claimed what another process takes", 0,
			func(ctx context.Context, l *raceLab) {
				d := l.Source(v4).DryRun(allocator.Truthful)
				l.must(d.Claim(ctx, addr(five), owner("web")))
				l.other("db")
				l.store.listed = func() {
					_, err := d.Pick(ctx, owner("web"))
					l.must(err)
				}
			}, nil, 1, 0,
		},
		{
			"a claim of what the list has collides", 0,
			func(_ context.Context, l *raceLab) { l.other("db") },
			func(ctx context.Context, l *raceLab) {
				wantError(l.t, "Claim", l.Claim(ctx, addr(five), owner("web")), allocator.ErrTaken)
			}, 1, 0,
		},
		{
			"a claim of what the list has not yet collides", 0,
			func(context.Context, *raceLab) {},
			func(ctx context.Context, l *raceLab) {
				l.other("db")
				wantError(l.t, "Claim", l.Claim(ctx, addr(five), owner("web")), allocator.ErrTaken)
			}, 1, 1,
		},
		{
			"a claim of what the list has fails for another reason", 0,
			func(_ context.Context, l *raceLab) {
				l.other("db")
				l.store.Store = &scriptedStore{Store: l.mem, answers: []error{forbidden}}
			},
			func(ctx context.Context, l *raceLab) {
				wantError(l.t, "Claim", l.Claim(ctx, addr(five), owner("web")), forbidden)
			}, 1, 0,
		},
		{
			"a claim is under way", 0,
			func(context.Context, *raceLab) {},
			func(ctx context.Context, l *raceLab) { l.must(l.Claim(ctx, addr(five), owner("web"))) }, 1, 0,
		},
		{
			"the same process claims and releases", 0,
			func(context.Context, *raceLab) {},
			func(ctx context.Context, l *raceLab) {
				l.must(l.Claim(ctx, addr(five), owner("web")))
				l.must(l.Release(ctx, addr(five), owner("web")))
			}, 0, 0,
		},
	}
	for _, tt := range tests {
		t.Run("fault F21 "+tt.name, func(t *testing.T) {
			l := newRaceLab(t, tt.quarantine)
			tt.before(t.Context(), l)
			if tt.during != nil {
				l.store.listed = func() { tt.during(t.Context(), l) }
			}
			l.must(l.Refresh(t.Context()))
			l.wantInUse(tt.want)
			l.now = l.now.Add(2 * time.Hour) // what was listed is no matter of time
			l.wantInUse(tt.want - tt.doubtful)
		})
	}
}
