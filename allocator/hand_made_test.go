package allocator_test

import (
	"context"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/allocator"
)

func TestServiceCIDRChanges(t *testing.T) {
	t.Run("fault F27 nil is a problem, and no change", func(t *testing.T) {
		m, _ := newMulti(t)
		if changed, problems := m.SetServiceCIDR(nil); changed || len(problems) != 1 {
			t.Errorf("SetServiceCIDR = %v, %v", changed, problems)
		}
	})
	m, _ := newMulti(t)
	tests := []struct {
		name string
		obj  *networkingv1.ServiceCIDR
		want bool
	}{
		{"without entries", serviceCIDR("a"), false},
		{"with an entry that cannot serve", serviceCIDR("a", "2001:db8::/48"), false},
		{"the same, being deleted", terminating(serviceCIDR("a", "2001:db8::/48")), false},
		{"with an entry that can", serviceCIDR("a", "10.0.0.0/24"), true},
		{"with another one that cannot", serviceCIDR("a", "10.0.0.0/24", "2001:db8::/48"), false},
		{"without entries again", serviceCIDR("a"), true},
		{"without entries, twice", serviceCIDR("a"), false},
	}
	for _, tt := range tests {
		t.Run("fault F27 an object "+tt.name, func(t *testing.T) {
			if changed, _ := m.SetServiceCIDR(tt.obj); changed != tt.want {
				t.Errorf("changed = %v, want %v", changed, tt.want)
			}
		})
	}
	t.Run("fault F27 the deletion of an object without usable range", func(t *testing.T) {
		if m.DeleteServiceCIDR("a") {
			t.Error("it is a change")
		}
	})
}

// emptyAPI is a client that answers without an object, as hand-made ones do.
type emptyAPI struct{}

func (emptyAPI) Create(context.Context, *networkingv1.IPAddress, metav1.CreateOptions) (*networkingv1.IPAddress, error) {
	return nil, nil
}

func (emptyAPI) Get(context.Context, string, metav1.GetOptions) (*networkingv1.IPAddress, error) {
	return nil, nil
}
func (emptyAPI) Delete(context.Context, string, metav1.DeleteOptions) error { return nil }
func (emptyAPI) List(context.Context, metav1.ListOptions) (*networkingv1.IPAddressList, error) {
	return nil, nil
}

type emptyLister struct{}

func (emptyLister) List(context.Context, metav1.ListOptions) (*networkingv1.ServiceCIDRList, error) {
	return nil, nil
}

// TestHandMadeValues gives exported functions what no client of an API makes. None
// may panic; an error must say what is missing where something cannot be done.
func TestHandMadeValues(t *testing.T) {
	ctx, x := t.Context(), addr("10.0.0.5")
	must := func(t *testing.T, what string, err error) {
		t.Helper()
		if err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	useStore := func(t *testing.T, s allocator.Store) {
		t.Helper()
		must(t, "Create", s.Create(ctx, x, owner("a")))
		must(t, "Delete", s.Delete(ctx, x, owner("a")))
		_, _, err := s.Get(ctx, x)
		must(t, "Get", err)
		_, err = s.List(ctx)
		must(t, "List", err)
	}
	useSource := func(t *testing.T, s allocator.Source[netip.Addr]) {
		t.Helper()
		for _, s := range []allocator.Source[netip.Addr]{s, s.DryRun(allocator.Truthful), s.DryRun(allocator.AsUpstream)} {
			_, err := s.Pick(ctx, owner("a"))
			must(t, "Pick", err)
			must(t, "Claim", s.Claim(ctx, netip.Addr{}, owner("a")))
			_ = s.Claim(ctx, x, owner("a"))
			_ = s.Release(ctx, x, owner("a"))
			_ = s.Release(ctx, netip.Addr{}, owner("a"))
		}
	}
	newPlan := func(t *testing.T) *allocator.ServicePlan {
		t.Helper()
		return newCluster(t, "46").plan(t, nil, rich())
	}
	tests := map[string]func(t *testing.T){
		"ServiceOwner": func(t *testing.T) {
			t.Helper()
			if o := allocator.ServiceOwner(nil); o != (allocator.Owner{}) {
				t.Errorf("got %v", o)
			}
		},
		"NewRecord": func(t *testing.T) {
			t.Helper()
			_, err := allocator.NewRecord(nil)
			must(t, "NewRecord", err)
		},
		"NewIPAddressStore of nil": func(t *testing.T) { t.Helper(); useStore(t, allocator.NewIPAddressStore(nil)) },
		"a client that answers with nothing": func(t *testing.T) {
			t.Helper()
			s := allocator.NewIPAddressStore(emptyAPI{})
			_, _, err := s.Get(ctx, x)
			must(t, "Get", err)
			must(t, "Delete", s.Delete(ctx, x, owner("a")))
			_, err = s.List(ctx)
			must(t, "List", err)
		},
		"the zero MemoryStore": func(t *testing.T) {
			t.Helper()
			var s allocator.MemoryStore
			wantError(t, "Create", s.Create(ctx, x, owner("a")), nil)
			if list, err := s.List(ctx); err != nil || len(list) != 1 || list[0].Created.IsZero() {
				t.Errorf("List = %v, %v", list, err)
			}
		},
		"NewMultiCIDR of nil": func(t *testing.T) {
			t.Helper()
			m := allocator.NewMultiCIDR(nil, allocator.Options{})
			addCIDR(t, m, raceRange)
			must(t, "Refresh", m.Refresh(ctx))
			must(t, "Claim", m.Claim(ctx, x, owner("a")))
			must(t, "Release", m.Release(ctx, x, owner("a")))
			_, err := m.Pick(ctx, v4, owner("a"))
			must(t, "Pick", err)
		},
		"MultiCIDR.Source of an unknown family": func(t *testing.T) {
			t.Helper()
			m, _ := newMulti(t, raceRange)
			useSource(t, m.Source("IPv5"))
		},
		"MultiCIDR and an address that is none": func(t *testing.T) {
			t.Helper()
			m, _ := newMulti(t, raceRange, "fd00::/120")
			must(t, "Claim", m.Claim(ctx, netip.Addr{}, owner("a")))
			wantError(t, "Release", m.Release(ctx, netip.Addr{}, owner("a")), nil)
			m.Observe(allocator.Record{})
			m.Forget(netip.Addr{})
		},
		"WithStore of nothing": func(t *testing.T) { t.Helper(); useSource(t, allocator.WithStore(nil, nil)) },
		"WithStore without store": func(t *testing.T) {
			t.Helper()
			p := newPool(t, raceRange, allocator.Options{})
			s := allocator.WithStore(p.Source(), nil)
			must(t, "Claim", s.Claim(ctx, x, owner("a")))
			_, err := s.Pick(ctx, owner("a"))
			must(t, "Pick", err)
			if p.Stats().Used != 0 {
				t.Error("an address is in use")
			}
		},
		"Pool and an address that is none": func(t *testing.T) {
			t.Helper()
			p := newPool(t, raceRange, allocator.Options{})
			must(t, "Claim", p.Claim(netip.Addr{}, owner("a")))
			must(t, "RestoreAllocation", p.RestoreAllocation(nil))
			must(t, "RestoreAllocation", newPorts(t, "30000-30010", allocator.Options{}).RestoreAllocation(nil))
			if s := p.BandStats(allocator.Band(7)); s != (allocator.Stats{}) {
				t.Errorf("BandStats of no band = %+v", s)
			}
			if _, _, ok := p.Bounds(allocator.Band(7)); ok {
				t.Error("no band has bounds")
			}
		},
		"constructors of ranges": func(t *testing.T) {
			t.Helper()
			_, err := allocator.NewPool(netip.Prefix{}, allocator.Options{})
			must(t, "NewPool", err)
			_, err = allocator.NewRangePool(netip.Addr{}, x, allocator.Options{})
			must(t, "NewRangePool", err)
		},
		"Services without sources": func(t *testing.T) {
			t.Helper()
			for _, s := range []*allocator.Services{nil, {}, {Addresses: map[corev1.IPFamily]allocator.Source[netip.Addr]{v4: nil}}} {
				for _, s := range []*allocator.Services{s, s.DryRun(allocator.Truthful), s.DryRun(allocator.AsUpstream)} {
					_, err := s.Apply(ctx, newPlan(t))
					wantError(t, "Apply", err, allocator.ErrNoRange)
				}
			}
		},
		"Apply and Replan without plan": func(t *testing.T) {
			t.Helper()
			c := newCluster(t, "46")
			_, err := c.services.Apply(ctx, nil)
			must(t, "Apply", err)
			txn := c.begin(t, nil, rich())
			must(t, "Replan", txn.Replan(ctx, nil))
			if got := c.state(); got != "" {
				t.Errorf("in use: %s, want all rolled back", got)
			}
			must(t, "Replan", txn.Replan(ctx, nil))
		},
		"a plan whose claims fit no object": func(t *testing.T) {
			t.Helper()
			c := newCluster(t, "46")
			plan := newPlan(t)
			for i := range plan.Claims {
				plan.Claims[i].Entries = [][]int{nil, {-1}, {7}}[i%3]
				plan.Claims[i].Path = nil
			}
			txn, err := c.services.Apply(ctx, plan)
			wantError(t, "Apply", err, nil)
			_ = txn.Service()
			wantError(t, "Replan", txn.Replan(ctx, &allocator.ServicePlan{Owner: plan.Owner, Claims: plan.Claims}), nil)
			wantError(t, "Rollback", txn.Rollback(ctx), nil)
		},
		"Plan of nothing": func(t *testing.T) {
			t.Helper()
			plan, errs := allocator.Plan(nil, nil, allocator.ClusterConfig{Families: families("4")})
			if errs != nil || len(plan.Claims)+len(plan.Releases) > 0 {
				t.Errorf("Plan = %+v, %v", plan, errs)
			}
		},
		"errors without cause": func(*testing.T) {
			_ = (&allocator.Error{Op: "claim"}).Error()
			_ = (&allocator.ClaimError{}).Error()
			_ = (&allocator.ClaimError{}).FieldError()
			_ = (&allocator.ClaimError{Internal: true}).FieldError().Error()
		},
		"repair of nothing": func(t *testing.T) {
			t.Helper()
			services := []*corev1.Service{nil, service(withIPs("10.0.0.5"))}
			findings := allocator.AddressRepair{Services: services, Ranges: []netip.Prefix{{}, prefix(raceRange)}, Records: []allocator.Record{{}}}.Findings()
			must(t, "Repair", allocator.Repair(ctx, nil, findings, nil))
			if f, s := (allocator.PortRepair{Services: services}).Findings(); len(f)+len(s) > 0 {
				t.Errorf("findings without a pool: %v, %v", f, s)
			}
			if f, s := (allocator.BitmapRepair{Services: services}).Findings(); len(f)+len(s) > 0 {
				t.Errorf("findings without a pool: %v, %v", f, s)
			}
			_, _ = allocator.PortRepair{Services: services, Pool: newPorts(t, "", allocator.Options{})}.Findings()
			_, _ = allocator.BitmapRepair{Services: services, Pool: newPool(t, "10.0.0.0/32", allocator.Options{})}.Findings()
		},
		"a finding with a remedy that there is not": func(t *testing.T) {
			t.Helper()
			p := newPool(t, raceRange, allocator.Options{})
			wantError(t, "Claim", p.Claim(x, owner("a")), nil)
			gone := func(context.Context, allocator.Owner) (bool, error) { return false, nil }
			findings := []allocator.Finding[netip.Addr]{{Remedy: 99, Value: x, Owner: owner("a")}}
			wantError(t, "Repair", p.Repair(ctx, findings, gone), nil)
			if !p.Has(x) {
				t.Error("it took the address away")
			}
		},
		"DiscoverServiceRanges": func(t *testing.T) {
			t.Helper()
			_, err := allocator.DiscoverServiceRanges(ctx, nil, nil)
			wantError(t, "without lister", err, allocator.ErrNoRange)
			_, err = allocator.DiscoverServiceRanges(ctx, emptyLister{}, nil)
			wantError(t, "a lister that answers with nothing", err, allocator.ErrNoRange)
		},
	}
	for name, test := range tests {
		t.Run("fault F31 allocator "+name, func(t *testing.T) {
			defer func() {
				if r := recover(); r != nil {
					t.Errorf("panic: %v", r)
				}
			}()
			test(t)
		})
	}
}
