package allocator_test

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/vipkit/vipkit/allocator"
)

// TestSourcesDeny runs the same refusals over every Source of addresses, and
// over their dry runs, which must answer the same.
func TestSourcesDeny(t *testing.T) {
	ctx := t.Context()
	sources := map[string]func(t *testing.T) allocator.Source[netip.Addr]{
		"Pool": func(t *testing.T) allocator.Source[netip.Addr] {
			t.Helper()
			return newPool(t, "10.96.0.0/29", allocator.Options{}).Source()
		},
		"WithStore": func(t *testing.T) allocator.Source[netip.Addr] {
			t.Helper()
			return allocator.WithStore(newPool(t, "10.96.0.0/29", allocator.Options{}).Source(), allocator.NewIPAddressStore(newIPAddressAPI()))
		},
		"MultiCIDR": func(t *testing.T) allocator.Source[netip.Addr] {
			t.Helper()
			m := allocator.NewMultiCIDR(allocator.NewIPAddressStore(newIPAddressAPI()), allocator.Options{})
			addCIDR(t, m, "10.96.0.0/29")
			return m.Source(v4)
		},
	}
	for name, newSource := range sources {
		for _, dry := range []bool{false, true} {
			t.Run("4.6 "+name+map[bool]string{true: ", dry run"}[dry], func(t *testing.T) {
				s := newSource(t)
				taken, err := s.Pick(ctx, owner("db"))
				if err != nil {
					t.Fatal(err)
				}
				if dry {
					s = s.DryRun(allocator.Truthful)
				}
				wantError(t, "taken", s.Claim(ctx, taken, owner("web")), allocator.ErrTaken)
				wantError(t, "taken by itself", s.Claim(ctx, taken, owner("db")), allocator.ErrTaken)
				wantError(t, "out of range", s.Claim(ctx, addr("10.97.0.1"), owner("web")), allocator.ErrOutOfRange)
				wantError(t, "other family", s.Claim(ctx, addr("fd00::1"), owner("web")), allocator.ErrOutOfRange)
				wantError(t, "not the owner", s.Release(ctx, taken, owner("web")), allocator.ErrNotOwner)
				wantError(t, "nobody has it", s.Release(ctx, addr("10.97.0.1"), owner("web")), nil)
				for range 5 {
					if _, err = s.Pick(ctx, owner("web")); err != nil {
						t.Fatal(err)
					}
				}
				_, err = s.Pick(ctx, owner("web"))
				wantError(t, "full", err, allocator.ErrFull)
				again, err := s.DryRun(allocator.Truthful).Pick(ctx, owner("web"))
				if dry != (err == nil) || dry && again == taken {
					t.Errorf("a dry run of it picks %s, %v", again, err)
				}
			})
		}
	}
}

func TestUpstreamDryRunOfMultiCIDR(t *testing.T) {
	t.Run("1.6 the network address of the first range that is ready", func(t *testing.T) {
		m, store := newMulti(t)
		m.SetServiceCIDR(terminating(serviceCIDR("a", "10.0.0.0/24")))
		addCIDR(t, m, "10.96.0.0/16")
		wantError(t, "Create", store.Create(t.Context(), addr("10.96.0.9"), owner("db")), nil)
		dry := m.Source(v4).DryRun(allocator.AsUpstream)
		if a, err := dry.Pick(t.Context(), owner("web")); err != nil || a != addr("10.96.0.0") {
			t.Errorf("Pick = %s, %v", a, err)
		}
		wantError(t, "taken", dry.DryRun(allocator.AsUpstream).Claim(t.Context(), addr("10.96.0.9"), owner("web")), nil)
		wantError(t, "not ready", dry.Claim(t.Context(), addr("10.0.0.9"), owner("web")), allocator.ErrNotReady)
	})
}

func TestMultiCIDRObserver(t *testing.T) {
	t.Run("1.8 claims are static, picks dynamic, failures count", func(t *testing.T) {
		got := map[string]int{}
		m := allocator.NewMultiCIDR(allocator.NewMemoryStore(nil), allocator.Options{Observe: func(scope allocator.Band, err error) {
			got[scope.String()+map[bool]string{true: " failed"}[err != nil]]++
		}})
		_, err := m.Pick(t.Context(), v4, owner("web"))
		wantError(t, "Pick", err, allocator.ErrNoRange)
		addCIDR(t, m, "10.96.0.0/16")
		wantError(t, "Claim", m.Claim(t.Context(), addr("10.96.0.9"), owner("web")), nil)
		wantError(t, "Claim", m.Claim(t.Context(), addr("10.96.0.9"), owner("web")), allocator.ErrTaken)
		_, err = m.Pick(t.Context(), v4, owner("web"))
		wantError(t, "Pick", err, nil)
		for what, want := range map[string]int{"static": 1, "static failed": 1, "dynamic": 1, "dynamic failed": 1} {
			if got[what] != want {
				t.Errorf("%s: %d, want %d", what, got[what], want)
			}
		}
	})
}

func TestOwners(t *testing.T) {
	t.Run("4.6 text", func(t *testing.T) {
		for want, o := range map[string]allocator.Owner{"ns1/web": owner("web"), "pool-a": {Name: "pool-a"}} {
			if o.String() != want {
				t.Errorf("String = %q, want %q", o.String(), want)
			}
		}
	})
}

func TestUnreleasable(t *testing.T) {
	t.Run("4.6 what cannot be given back is named", func(t *testing.T) {
		broken := errors.New("broken")
		c := newCluster(t, "46")
		api := newIPAddressAPI()
		c.services.Addresses[v4] = allocator.WithStore(c.v4.Source(), allocator.NewIPAddressStore(api))
		txn := c.begin(t, nil, service(withPolicy("R")))
		api.fail = broken
		wantError(t, "Rollback", txn.Rollback(t.Context()), broken)
		if got := c.v6.Stats().Used; got != 0 {
			t.Errorf("%d IPv6 addresses in use: one failure kept the other from being given back", got)
		}
		if !c.v4.Has(addr("10.96.0.17")) {
			t.Error("the first book would hand out what the second still has")
		}
	})
}
