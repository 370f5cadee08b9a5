package allocator_test

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/allocator"
)

const (
	v4 = corev1.IPv4Protocol
	v6 = corev1.IPv6Protocol
)

// serviceCIDR returns a ServiceCIDR without conditions.
func serviceCIDR(name string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       networkingv1.ServiceCIDRSpec{CIDRs: cidrs},
	}
}

// withReady sets the Ready condition.
func withReady(obj *networkingv1.ServiceCIDR, status metav1.ConditionStatus) *networkingv1.ServiceCIDR {
	obj.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: status}}
	return obj
}

// terminating marks obj as being deleted.
func terminating(obj *networkingv1.ServiceCIDR) *networkingv1.ServiceCIDR {
	now := metav1.NewTime(time.Unix(0, 0))
	obj.DeletionTimestamp = &now
	return obj
}

// newMulti returns a MultiCIDR over a store in memory, with one ServiceCIDR for
// each of cidrs, named like it.
func newMulti(t *testing.T, cidrs ...string) (*allocator.MultiCIDR, *allocator.MemoryStore) {
	t.Helper()
	store := allocator.NewMemoryStore(nil)
	m := allocator.NewMultiCIDR(store, allocator.Options{})
	for _, c := range cidrs {
		addCIDR(t, m, c)
	}
	return m, store
}

func addCIDR(t *testing.T, m *allocator.MultiCIDR, cidr string) {
	t.Helper()
	if _, problems := m.SetServiceCIDR(serviceCIDR(cidr, cidr)); problems != nil {
		t.Fatalf("SetServiceCIDR(%s): %v", cidr, problems)
	}
}

// exhaust picks IPv4 addresses until there is none, and returns what came.
func exhaust(t *testing.T, m *allocator.MultiCIDR) map[netip.Addr]bool {
	t.Helper()
	got := map[netip.Addr]bool{}
	for {
		a, err := m.Pick(t.Context(), v4, owner("web"))
		if errors.Is(err, allocator.ErrFull) {
			return got
		}
		if err != nil || got[a] {
			t.Fatalf("Pick = %s, %v after %d", a, err, len(got))
		}
		got[a] = true
	}
}

func TestMultiCIDRSequences(t *testing.T) {
	ctx := t.Context()
	t.Run("2.4 no CIDR, pick", func(t *testing.T) {
		m, _ := newMulti(t)
		_, err := m.Pick(ctx, v4, owner("web"))
		wantError(t, "Pick", err, allocator.ErrNoRange) // full for API servers
		wantError(t, "Claim", m.Claim(ctx, addr("10.0.0.1"), owner("web")), allocator.ErrNoRange)
	})
	t.Run("2.4 a /28, then another, then a /24 over the first", func(t *testing.T) {
		m, _ := newMulti(t, "192.168.0.0/28")
		total := len(exhaust(t, m))
		if total != 14 {
			t.Errorf("a /28 gave %d, want 14", total)
		}
		addCIDR(t, m, "10.0.0.0/28")
		wantError(t, "Claim", m.Claim(ctx, addr("10.0.0.11"), owner("db")), nil)
		total += 1 + len(exhaust(t, m))
		if total != 28 {
			t.Errorf("two /28 gave %d, want 28", total)
		}
	})
	t.Run("2.4 add a /24 over a full /28", func(t *testing.T) {
		m, _ := newMulti(t, "192.168.0.0/28")
		got := exhaust(t, m)
		addCIDR(t, m, "192.168.0.0/24")
		for a := range exhaust(t, m) {
			if got[a] {
				t.Errorf("%s came twice", a)
			}
			got[a] = true
		}
		wantRange(t, got, "192.168.0.1", "192.168.0.254")
	})
	t.Run("2.4 a full /24 is replaced by a /28", func(t *testing.T) {
		m, store := newMulti(t, "192.168.0.0/24")
		exhaust(t, m)
		addCIDR(t, m, "192.168.0.0/28")
		m.DeleteServiceCIDR("192.168.0.0/24")
		_, err := m.Pick(ctx, v4, owner("web"))
		wantError(t, "Pick", err, allocator.ErrFull)
		if _, ok, _ := store.Get(ctx, addr("192.168.0.15")); !ok {
			t.Error(".15 is gone")
		}
		wantError(t, "Release of an address without range", m.Release(ctx, addr("192.168.0.15"), owner("web")), nil)
		wantError(t, "Claim", m.Claim(ctx, addr("192.168.0.15"), owner("web")), allocator.ErrOutOfRange)
	})
	t.Run("2.4 192.168.1.0 is refused by its /24, granted by a /16", func(t *testing.T) {
		m, _ := newMulti(t, "192.168.1.0/24")
		wantError(t, "Claim", m.Claim(ctx, addr("192.168.1.0"), owner("web")), allocator.ErrOutOfRange)
		addCIDR(t, m, "192.168.0.0/16")
		wantError(t, "Claim", m.Claim(ctx, addr("192.168.1.0"), owner("web")), nil)
	})
	t.Run("2.4 a dual-stack ServiceCIDR seen by the IPv6 side", func(t *testing.T) {
		m, _ := newMulti(t)
		m.SetServiceCIDR(serviceCIDR("kubernetes", "10.0.0.0/24", "2001:db8::/64"))
		six := m.Source(v6)
		wantError(t, "Claim", six.Claim(ctx, addr("10.0.0.5"), owner("web")), allocator.ErrOutOfRange)
		a, err := six.Pick(ctx, owner("web"))
		if err != nil || !prefix("2001:db8::/64").Contains(a) {
			t.Errorf("Pick = %s, %v", a, err)
		}
	})
}

func TestMultiCIDRReadiness(t *testing.T) {
	ctx := t.Context()
	const cidr = "10.0.0.0/24"
	tests := []struct {
		name    string
		objects []*networkingv1.ServiceCIDR
		want    error
	}{
		{"2.2 no condition", []*networkingv1.ServiceCIDR{serviceCIDR("a", cidr)}, nil},
		{"2.2 true", []*networkingv1.ServiceCIDR{withReady(serviceCIDR("a", cidr), metav1.ConditionTrue)}, nil},
		{"2.2 false", []*networkingv1.ServiceCIDR{withReady(serviceCIDR("a", cidr), metav1.ConditionFalse)}, allocator.ErrNotReady},
		{"2.2 unknown", []*networkingv1.ServiceCIDR{withReady(serviceCIDR("a", cidr), metav1.ConditionUnknown)}, allocator.ErrNotReady},
		{"2.2 being deleted", []*networkingv1.ServiceCIDR{terminating(serviceCIDR("a", cidr))}, allocator.ErrNotReady},
		{"2.2 one of two is ready", []*networkingv1.ServiceCIDR{terminating(serviceCIDR("a", cidr)), serviceCIDR("b", cidr)}, nil},
		{
			"2.2 both referrers are being deleted, one after the other",
			[]*networkingv1.ServiceCIDR{
				serviceCIDR("a", cidr), serviceCIDR("b", cidr),
				terminating(serviceCIDR("a", cidr)), terminating(serviceCIDR("b", cidr)),
			},
			allocator.ErrNotReady,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := newMulti(t)
			for _, o := range tt.objects {
				m.SetServiceCIDR(o)
			}
			_, err := m.Pick(ctx, v4, owner("web"))
			wantError(t, "Pick", err, tt.want)
			wantError(t, "Claim", m.Claim(ctx, addr("10.0.0.5"), owner("web")), tt.want)
			_, err = m.Source(v4).DryRun(allocator.AsUpstream).Pick(ctx, owner("web"))
			wantError(t, "upstream dry run", err, tt.want)
		})
	}
	t.Run("2.2 the last referrer goes, addresses stay in use", func(t *testing.T) {
		m, store := newMulti(t, cidr)
		wantError(t, "Claim", m.Claim(ctx, addr("10.0.0.5"), owner("web")), nil)
		if !m.DeleteServiceCIDR(cidr) || m.DeleteServiceCIDR(cidr) {
			t.Error("DeleteServiceCIDR must report a change once")
		}
		_, err := m.Pick(ctx, v4, owner("web"))
		wantError(t, "Pick", err, allocator.ErrNoRange)
		if _, ok, _ := store.Get(ctx, addr("10.0.0.5")); !ok {
			t.Error("10.0.0.5 is gone")
		}
		addCIDR(t, m, cidr)
		wantError(t, "Claim", m.Claim(ctx, addr("10.0.0.5"), owner("db")), allocator.ErrTaken)
	})
	t.Run("2.2 the same object twice is no change", func(t *testing.T) {
		m, _ := newMulti(t)
		first, _ := m.SetServiceCIDR(serviceCIDR("a", cidr))
		second, _ := m.SetServiceCIDR(withReady(serviceCIDR("a", cidr), metav1.ConditionTrue))
		third, _ := m.SetServiceCIDR(serviceCIDR("a", cidr, "fd00::/112"))
		if !first || second || !third {
			t.Errorf("changes: %v, %v, %v, want true, false, true", first, second, third)
		}
	})
}

func TestServiceCIDREntries(t *testing.T) {
	tests := []struct {
		name, cidr string
		problem    bool
		want       error
	}{
		{"2.1 a /32 is accepted and has nothing", "10.0.0.1/32", false, allocator.ErrFull},
		{"2.1 an IPv6 /48 is reported", "2001:db8::/48", true, allocator.ErrNoRange},
		{"2.1 host bits", "10.0.0.1/24", true, allocator.ErrNoRange},
		{"2.1 not RFC 5952", "2001:DB8::/64", true, allocator.ErrNoRange},
		{"2.1 leading zeros", "010.0.0.0/24", true, allocator.ErrNoRange},
		{"2.1 IPv4 in IPv6", "::ffff:10.0.0.0/120", true, allocator.ErrNoRange},
		{"2.1 no CIDR", "10.0.0.0", true, allocator.ErrNoRange},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := newMulti(t)
			_, problems := m.SetServiceCIDR(serviceCIDR("a", tt.cidr))
			if got := len(problems) == 1 && problems[0].Field == "spec.cidrs[0]"; got != tt.problem {
				t.Errorf("problems %v, want one: %v", problems, tt.problem)
			}
			family := v4
			if strings.Contains(tt.cidr, ":") {
				family = v6
			}
			_, err := m.Pick(t.Context(), family, owner("web"))
			wantError(t, "Pick", err, tt.want)
		})
	}
}

func TestMultiCIDRErrors(t *testing.T) {
	t.Run("6.3 the text that others look for is kept, also when not in a dry run", func(t *testing.T) {
		m, _ := newMulti(t, "10.96.0.0/16", "10.0.0.0/24")
		err := m.Claim(t.Context(), addr("1.1.1.1"), owner("web"))
		if !strings.HasSuffix(err.Error(), "The range of valid IPs is 10.0.0.0/24,10.96.0.0/16") {
			t.Errorf("text is %q", err)
		}
		var e *allocator.Error
		if !errors.As(err, &e) || len(e.Ranges) != 2 {
			t.Errorf("Ranges = %v", e.Ranges)
		}
	})
	t.Run("2.3 a family that does not exist", func(t *testing.T) {
		m, _ := newMulti(t, "10.96.0.0/16")
		_, err := m.Pick(t.Context(), "IPv5", owner("web"))
		wantError(t, "Pick", err, allocator.ErrNoRange)
		if got := m.Ranges("IPv5"); got != nil {
			t.Errorf("Ranges = %v", got)
		}
	})
	t.Run("2.3 taken names the holder if the store does", func(t *testing.T) {
		m, _ := newMulti(t, "10.96.0.0/16")
		wantError(t, "Claim", m.Claim(t.Context(), addr("10.96.0.9"), owner("web")), nil)
		err := m.Claim(t.Context(), addr("10.96.0.9"), owner("db"))
		var e *allocator.Error
		if !errors.As(err, &e) || e.Owner != owner("web") {
			t.Errorf("Claim = %v, want the owner named", err)
		}
		wantError(t, "Release", m.Release(t.Context(), addr("10.96.0.9"), owner("db")), allocator.ErrNotOwner)
	})
}

func TestCanDelete(t *testing.T) {
	tests := []struct {
		name   string
		others []*networkingv1.ServiceCIDR
		addr   string
		want   bool
	}{
		{"2.4 only CIDR, no addresses", nil, "", true},
		{"2.4 only CIDR, an address", nil, "192.168.0.24", false},
		{"2.4 only CIDR, an address elsewhere", nil, "192.168.1.24", true},
		{"2.4 only CIDR, the network address", nil, "192.168.0.0", true},
		{"2.4 only CIDR, the broadcast address", nil, "192.168.0.255", true},
		{"2.4 IPv6 last address", nil, "2001:db2::ffff:ffff:ffff:ffff", false},
		{"2.4 an equal CIDR", []*networkingv1.ServiceCIDR{serviceCIDR("o", "192.168.0.0/24")}, "192.168.0.24", true},
		{"2.4 a /26 that has the address", []*networkingv1.ServiceCIDR{serviceCIDR("o", "192.168.0.0/26")}, "192.168.0.23", true},
		{"2.4 a /28 that has it not", []*networkingv1.ServiceCIDR{serviceCIDR("o", "192.168.0.0/28")}, "192.168.0.23", false},
		{"2.4 a /16", []*networkingv1.ServiceCIDR{serviceCIDR("o", "192.168.0.0/16")}, "192.168.0.23", true},
		{"2.4 an equal CIDR that is being deleted too", []*networkingv1.ServiceCIDR{terminating(serviceCIDR("o", "192.168.0.0/24"))}, "192.168.0.24", false},
		{"2.4 a cover that is not ready", []*networkingv1.ServiceCIDR{withReady(serviceCIDR("o", "192.168.0.0/24"), metav1.ConditionFalse)}, "192.168.0.24", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m, _ := newMulti(t)
			m.SetServiceCIDR(terminating(serviceCIDR("it", "192.168.0.0/24", "2001:db2::/64")))
			for _, o := range tt.others {
				m.SetServiceCIDR(o)
			}
			if tt.addr != "" {
				m.Observe(allocator.Record{Addr: addr(tt.addr), Owner: owner("web")})
			}
			if got := m.CanDelete("it"); got != tt.want {
				t.Errorf("CanDelete = %v, want %v", got, tt.want)
			}
		})
	}
	t.Run("2.4 foreign, forgotten and unknown", func(t *testing.T) {
		m, _ := newMulti(t, "192.168.0.0/24")
		m.Observe(allocator.Record{Addr: addr("192.168.0.9"), Foreign: true})
		m.Observe(allocator.Record{})
		if !m.CanDelete("192.168.0.0/24") || !m.CanDelete("unknown") {
			t.Error("a foreign address keeps the CIDR")
		}
		wantError(t, "but it blocks the address", m.Source(v4).Claim(t.Context(), addr("192.168.0.0"), owner("a")), allocator.ErrOutOfRange)
		m.Observe(allocator.Record{Addr: addr("192.168.0.9"), Owner: owner("web")})
		if m.CanDelete("192.168.0.0/24") {
			t.Error("an address in use does not keep the CIDR")
		}
		m.Forget(addr("192.168.0.9"))
		if !m.CanDelete("192.168.0.0/24") {
			t.Error("a forgotten address keeps the CIDR")
		}
	})
}
