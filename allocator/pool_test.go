package allocator_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vipkit/vipkit/allocator"
)

func TestPoolPicks(t *testing.T) {
	p := newPool(t, "10.0.0.0/24", allocator.Options{})
	t.Run("1.9 238 dynamic picks", func(t *testing.T) {
		wantRange(t, pickAll(t, p, 238), "10.0.0.17", "10.0.0.254")
		if got := p.Stats().Free; got != 16 {
			t.Errorf("Free = %d, want 16", got)
		}
	})
	t.Run("1.9 then 16 more picks from the static band", func(t *testing.T) {
		wantRange(t, pickAll(t, p, 16), "10.0.0.1", "10.0.0.16")
		if got := p.Stats().Free; got != 0 {
			t.Errorf("Free = %d, want 0", got)
		}
	})
	t.Run("1.9 then ErrFull, repeatedly", func(t *testing.T) {
		for range 3 {
			_, err := p.Pick(owner("web"))
			wantError(t, "pick", err, allocator.ErrFull)
		}
	})
	t.Run("1.9 full, release .5, pick .5", func(t *testing.T) {
		wantError(t, "release", p.Release(addr("10.0.0.5"), owner("web")), nil)
		if got, err := p.Pick(owner("web")); err != nil || got != addr("10.0.0.5") {
			t.Errorf("Pick = %s, %v, want 10.0.0.5", got, err)
		}
	})
}

func TestPoolExhaustion(t *testing.T) {
	t.Run("#42 a /29 gives six, then full, then what was released", func(t *testing.T) {
		p := newPool(t, "10.96.0.0/29", allocator.Options{})
		got := pickAll(t, p, 6)
		_, err := p.Pick(owner("web"))
		wantError(t, "the seventh pick", err, allocator.ErrFull)
		for a := range got {
			wantError(t, "release", p.Release(a, owner("web")), nil)
			if again, err := p.Pick(owner("web")); err != nil || again != a {
				t.Errorf("Pick = %s, %v, want %s", again, err, a)
			}
		}
	})
}

func TestPoolClaims(t *testing.T) {
	p := newPool(t, "10.0.0.0/24", allocator.Options{})
	steps := []struct {
		name, addr string
		want       error
	}{
		{"1.9 .0 is the network", "10.0.0.0", allocator.ErrOutOfRange},
		{"1.9 .255 is the broadcast", "10.0.0.255", allocator.ErrOutOfRange},
		{"1.9 .1 in the static band", "10.0.0.1", nil},
		{"1.9 .1 again, by its owner", "10.0.0.1", allocator.ErrTaken},
		{"1.2 an explicit request in the dynamic band", "10.0.0.200", nil},
		{"1.5 other family", "fd00::1", allocator.ErrOutOfRange},
		{"1.5 IPv4 mapped into IPv6", "::ffff:10.0.0.7", allocator.ErrOutOfRange},
		{"1.5 other prefix", "10.0.1.1", allocator.ErrOutOfRange},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			wantError(t, "Claim", p.Claim(addr(s.addr), owner("web")), s.want)
		})
	}
	t.Run("1.9 10.0.0.255 and 10.0.1.0 are ordinary in a /16", func(t *testing.T) {
		wide := newPool(t, "10.0.0.0/16", allocator.Options{})
		wantError(t, "Claim .0.255", wide.Claim(addr("10.0.0.255"), owner("web")), nil)
		wantError(t, "Claim .1.0", wide.Claim(addr("10.0.1.0"), owner("web")), nil)
	})
	t.Run("1.5 the text that others look for", func(t *testing.T) {
		err := p.Claim(addr("1.1.1.1"), owner("web"))
		if !strings.HasSuffix(err.Error(), "The range of valid IPs is 10.0.0.0/24") {
			t.Errorf("text is %q", err)
		}
	})
	t.Run("1.5 an address with a zone", func(t *testing.T) {
		p := newPool(t, "fe80::/64", allocator.Options{})
		wantError(t, "Claim", p.Claim(addr("fe80::1%eth0"), owner("web")), allocator.ErrOutOfRange)
	})
}

func TestPoolOwners(t *testing.T) {
	a := addr("10.0.0.9")
	old := allocator.Owner{Namespace: "ns1", Name: "web", UID: "1"}
	recreated := allocator.Owner{Namespace: "ns1", Name: "web", UID: "2"}
	tests := []struct {
		name    string
		holder  allocator.Owner
		by      allocator.Owner
		reserve error
		release error
	}{
		{"4.6 the same", old, old, nil, nil},
		{"4.6 UID not known", old, owner("web"), nil, nil},
		{"4.6 another UID", old, recreated, allocator.ErrTaken, allocator.ErrNotOwner},
		{"4.6 another name", old, owner("db"), allocator.ErrTaken, allocator.ErrNotOwner},
		{"4.6 nobody in particular", old, allocator.Owner{}, allocator.ErrTaken, allocator.ErrNotOwner},
		{"4.6 held by nobody in particular", allocator.Owner{}, old, allocator.ErrTaken, allocator.ErrNotOwner},
		{"4.6 nobody for nobody", allocator.Owner{}, allocator.Owner{}, nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPool(t, "10.0.0.0/24", allocator.Options{})
			wantError(t, "Claim", p.Claim(a, tt.holder), nil)
			wantError(t, "Reserve", p.Reserve(a, tt.by), tt.reserve)
			wantError(t, "Release", p.Release(a, tt.by), tt.release)
			if got, held := p.Has(a), tt.release != nil; got != held {
				t.Errorf("Has = %v, want %v", got, held)
			}
		})
	}
	t.Run("4.6 an error names the holder", func(t *testing.T) {
		p := newPool(t, "10.0.0.0/24", allocator.Options{})
		wantError(t, "Claim", p.Claim(a, old), nil)
		err := p.Claim(a, owner("db"))
		if want := "allocator: claim 10.0.0.9: already allocated by ns1/web"; err.Error() != want {
			t.Errorf("text is %q, want %q", err, want)
		}
	})
	t.Run("4.6 a reservation makes the UID known", func(t *testing.T) {
		p := newPool(t, "10.0.0.0/24", allocator.Options{})
		wantError(t, "Claim", p.Claim(a, owner("web")), nil)
		wantError(t, "Reserve", p.Reserve(a, old), nil)
		wantError(t, "Reserve by a successor", p.Reserve(a, recreated), allocator.ErrTaken)
	})
	t.Run("4.6 transfer", func(t *testing.T) {
		p := newPool(t, "10.0.0.0/24", allocator.Options{})
		wantError(t, "free", p.Transfer(a, allocator.Owner{}, old), allocator.ErrNotOwner)
		wantError(t, "Claim", p.Claim(a, allocator.Owner{}), nil)
		wantError(t, "wrong", p.Transfer(a, owner("db"), old), allocator.ErrNotOwner)
		wantError(t, "right", p.Transfer(a, allocator.Owner{}, old), nil)
		wantError(t, "outside", p.Transfer(addr("1.1.1.1"), old, old), allocator.ErrOutOfRange)
		if got, ok := p.Owner(a); !ok || got != old {
			t.Errorf("Owner = %v, %v, want %v", got, ok, old)
		}
		wantError(t, "back", p.Transfer(a, old, allocator.Owner{}), nil)
		if got, ok := p.Owner(a); !ok || got != (allocator.Owner{}) {
			t.Errorf("Owner = %v, %v, want nobody", got, ok)
		}
	})
}

func TestPoolReleases(t *testing.T) {
	p := newPool(t, "10.0.0.0/24", allocator.Options{})
	for _, a := range []string{"10.0.0.9", "10.0.0.0", "192.168.0.1", "fd00::1"} {
		t.Run("1.5 release of unallocated or foreign "+a, func(t *testing.T) {
			wantError(t, "Release", p.Release(addr(a), owner("web")), nil)
			if p.Has(addr(a)) || p.Stats().Used != 0 {
				t.Error("something is in use")
			}
		})
	}
}

func TestPoolIterates(t *testing.T) {
	t.Run("1.5 in ascending order, and the loop may use the pool", func(t *testing.T) {
		p := newPool(t, "10.0.0.0/16", allocator.Options{})
		want := slices.SortedFunc(maps.Keys(pickAll(t, p, 1000)), netip.Addr.Compare)
		var got []netip.Addr
		for a, o := range p.All() {
			if o != owner("web") {
				t.Fatalf("%s belongs to %s", a, o)
			}
			got = append(got, a)
			wantError(t, "Release", p.Release(a, o), nil)
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %d addresses, want %d in order", len(got), len(want))
		}
		for a := range p.All() {
			t.Fatalf("%s is left", a)
		}
	})
	t.Run("1.5 a loop can stop", func(t *testing.T) {
		p := newPool(t, "10.0.0.0/16", allocator.Options{})
		pickAll(t, p, 10)
		n := 0
		for range p.All() {
			if n++; n == 3 {
				break
			}
		}
	})
}

func TestPoolIsUniform(t *testing.T) {
	t.Run("6.2 a free address behind a long used run is not preferred", func(t *testing.T) {
		p := newPool(t, "10.0.0.0/24", allocator.Options{})
		for i := 17; i < 200; i++ {
			wantError(t, "Claim", p.Claim(addr(fmt.Sprintf("10.0.0.%d", i)), owner("db")), nil)
		}
		// 55 free addresses: .200 must come in about 1/55 of the draws; with the
		// walk that API servers do it would be 184/238.
		hits := 0
		for range 5500 {
			a, err := p.Pick(owner("web"))
			if err != nil {
				t.Fatal(err)
			}
			if a == addr("10.0.0.200") {
				hits++
			}
			wantError(t, "Release", p.Release(a, owner("web")), nil)
		}
		if hits < 40 || hits > 180 { // 100 expected; the bounds are 6 and 8 sigma away
			t.Errorf(".200 came %d times of 5500", hits)
		}
	})
	t.Run("6.3 lowest first on request", func(t *testing.T) {
		p := newPool(t, "10.0.0.0/24", allocator.Options{Lowest: true})
		wantError(t, "Claim", p.Claim(addr("10.0.0.18"), owner("db")), nil)
		for _, want := range []string{"10.0.0.17", "10.0.0.19", "10.0.0.20"} {
			if got, err := p.Pick(owner("web")); err != nil || got != addr(want) {
				t.Errorf("Pick = %s, %v, want %s", got, err, want)
			}
		}
	})
}

func TestPoolExcludes(t *testing.T) {
	p := newPool(t, "10.0.0.0/28", allocator.Options{})
	a := addr("10.0.0.1")
	t.Run("1.3 excluded addresses are neither used nor free nor releasable", func(t *testing.T) {
		wantError(t, "Exclude", p.Exclude(a, addr("10.0.0.2"), a), nil)
		wantError(t, "Claim", p.Claim(a, owner("web")), allocator.ErrReserved)
		wantError(t, "Reserve", p.Reserve(a, owner("web")), allocator.ErrReserved)
		wantError(t, "Release", p.Release(a, owner("web")), nil)
		if got, want := p.Stats(), (allocator.Stats{Size: 14, Free: 12, Excluded: 2}); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
		wantRange(t, pickAll(t, p, 12), "10.0.0.3", "10.0.0.14")
		_, err := p.Pick(owner("web"))
		wantError(t, "Pick", err, allocator.ErrFull)
	})
	t.Run("1.3 an address in use cannot be excluded", func(t *testing.T) {
		wantError(t, "Exclude", p.Exclude(addr("10.0.0.3")), allocator.ErrTaken)
		wantError(t, "Exclude", p.Exclude(addr("10.0.1.3")), allocator.ErrOutOfRange)
	})
}

func TestPoolQuarantine(t *testing.T) {
	now := time.Unix(0, 0)
	opts := allocator.Options{Quarantine: time.Minute, Now: func() time.Time { return now }}
	a, other := addr("10.0.0.1"), addr("10.0.0.2")
	full := func(t *testing.T) *allocator.Pool {
		t.Helper()
		p := newPool(t, "10.0.0.0/30", opts)
		pickAll(t, p, 2)
		wantError(t, "Release", p.Release(a, owner("web")), nil)
		return p
	}
	t.Run("6.2 a released address cannot be picked for the time given", func(t *testing.T) {
		p := full(t)
		if got, want := p.Stats(), (allocator.Stats{Size: 2, Used: 1, Quarantined: 1}); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
		now = now.Add(time.Minute - 1)
		_, err := p.Pick(owner("db"))
		wantError(t, "Pick early", err, allocator.ErrFull)
		now = now.Add(1)
		if got, err := p.Pick(owner("db")); err != nil || got != a {
			t.Errorf("Pick = %s, %v, want %s", got, err, a)
		}
	})
	t.Run("6.2 an explicit request bypasses the quarantine", func(t *testing.T) {
		p := full(t)
		if p.Has(a) {
			t.Error("a quarantined address counts as held")
		}
		wantError(t, "Claim", p.Claim(a, owner("db")), nil)
		now = now.Add(time.Hour)
		if got, want := p.Stats(), (allocator.Stats{Size: 2, Used: 2}); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
	})
	t.Run("6.2 the second release counts, not the first", func(t *testing.T) {
		p := full(t)
		wantError(t, "Claim", p.Claim(a, owner("db")), nil)
		now = now.Add(30 * time.Second)
		wantError(t, "Release", p.Release(a, owner("db")), nil)
		now = now.Add(31 * time.Second)
		_, err := p.Pick(owner("web"))
		wantError(t, "Pick", err, allocator.ErrFull)
	})
	t.Run("6.2 a quarantined address can be excluded", func(t *testing.T) {
		p := full(t)
		wantError(t, "Exclude", p.Exclude(a), nil)
		wantError(t, "Exclude", p.Exclude(other), allocator.ErrTaken)
		now = now.Add(time.Hour)
		if got, want := p.Stats(), (allocator.Stats{Size: 2, Used: 1, Excluded: 1}); got != want {
			t.Errorf("Stats = %+v, want %+v", got, want)
		}
	})
}

func TestPoolObserver(t *testing.T) {
	type counters struct{ total, errors [2]int }
	var mu sync.Mutex
	var got counters
	opts := allocator.Options{Observe: func(scope allocator.Band, err error) {
		mu.Lock()
		defer mu.Unlock()
		if err != nil {
			got.errors[scope]++
		} else {
			got.total[scope]++
		}
	}}
	t.Run("1.9 counters of a /24 over two picks, requests again, releases and 264 picks", func(t *testing.T) {
		p := newPool(t, "192.168.1.0/24", opts)
		for a := range pickAll(t, p, 2) {
			wantError(t, "Claim", p.Claim(a, owner("web")), allocator.ErrTaken)
			wantError(t, "Release", p.Release(a, owner("web")), nil)
		}
		for range 264 {
			_, _ = p.Pick(owner("web")) // ten of these fail
		}
		want := counters{total: [2]int{0, 256}, errors: [2]int{2, 10}}
		if s := p.Stats(); got != want || s.Used != 254 || s.Free != 0 {
			t.Errorf("counters %+v, want %+v; stats %+v", got, want, s)
		}
	})
	t.Run("1.9 gauges of a /112 after 264 picks", func(t *testing.T) {
		p := newPool(t, "2001:db8::/112", allocator.Options{})
		pickAll(t, p, 264)
		if s := p.Stats(); s.Used != 264 || s.Free != 65271 {
			t.Errorf("stats %+v, want 264 used, 65271 free", s)
		}
	})
}

func TestPoolConcurrently(t *testing.T) {
	for _, cidr := range []string{"10.0.0.0/20", "fd00::/64"} {
		t.Run("6.2 64 goroutines never get one address twice from "+cidr, func(t *testing.T) {
			p := newPool(t, cidr, allocator.Options{Quarantine: time.Nanosecond})
			var mu sync.Mutex
			holders := map[netip.Addr]int{}
			var wg sync.WaitGroup
			for g := range 64 {
				wg.Go(func() {
					me := owner(fmt.Sprint("svc", g))
					for range 50 {
						a, err := p.Pick(me)
						if err != nil {
							t.Errorf("Pick: %v", err)
							return
						}
						mu.Lock()
						if holders[a]++; holders[a] > 1 {
							t.Errorf("%s was handed out twice", a)
						}
						mu.Unlock()
						_ = p.Reserve(a, me)
						_ = p.Stats()
						if g%2 == 0 {
							mu.Lock()
							holders[a]--
							mu.Unlock()
							_ = p.Release(a, me)
						}
					}
				})
			}
			wg.Wait()
			if got := p.Stats().Used; got != 32*50 {
				t.Errorf("%d used, want %d", got, 32*50)
			}
		})
	}
}
