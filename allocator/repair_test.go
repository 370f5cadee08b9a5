package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/allocator"
)

// show renders findings in one line: "create 10.0.0.1 for ns1/web (reason)".
func show[T comparable](findings []allocator.Finding[T]) string {
	remedies := map[allocator.Remedy]string{
		allocator.Report: "report", allocator.Create: "create", allocator.Delete: "delete",
		allocator.Replace: "replace", allocator.Wait: "wait",
	}
	var out []string
	for _, f := range findings {
		s := fmt.Sprint(remedies[f.Remedy], " ", f.Value)
		if f.Owner != (allocator.Owner{}) {
			s += " for " + f.Owner.String()
		}
		if f.Holder != (allocator.Owner{}) {
			s += " of " + f.Holder.String()
		}
		if f.Remedy == allocator.Wait {
			s += " " + f.After.String()
		}
		out = append(out, s+" ("+string(f.Problem)+" "+f.Reason+")")
	}
	return strings.Join(out, "; ")
}

// createdAt sets the creation time to a number of seconds.
func createdAt(seconds int64) edit {
	return func(s *corev1.Service) { s.CreationTimestamp = metav1.NewTime(time.Unix(seconds, 0)) }
}

// record returns an entry that was made at a number of seconds.
func record(a string, o allocator.Owner, seconds int64) allocator.Record {
	return allocator.Record{Addr: addr(a), Owner: o, Created: time.Unix(seconds, 0)}
}

func TestAddressRepair(t *testing.T) {
	web := func(edits ...edit) *corev1.Service { return service(append([]edit{createdAt(1000)}, edits...)...) }
	one, two := web(withIPs("10.0.0.1")), web(withIPs("10.0.0.1"), named("db"))
	nobody := allocator.Owner{}
	rec := func(change func(*allocator.Record)) []allocator.Record {
		r := record("10.0.0.1", owner("web"), 1000)
		change(&r)
		return []allocator.Record{r}
	}
	tests := []struct {
		name     string
		services []*corev1.Service
		records  []allocator.Record
		now      int64
		want     string
	}{
		{"all is well", []*corev1.Service{one}, rec(func(*allocator.Record) {}), 9999, ""},
		{"headless and without address", []*corev1.Service{web(headless), web(named("x"))}, nil, 9999, ""},
		{"unparsable", []*corev1.Service{web(withIPs("10.0.0.x"))}, nil, 9999, "report invalid IP for ns1/web (invalid ClusterIPNotValid)"},
		{"missing", []*corev1.Service{one}, nil, 9999, "create 10.0.0.1 for ns1/web (repair ClusterIPNotAllocated)"},
		{"missing, clusterIPs not set", []*corev1.Service{web(func(s *corev1.Service) { s.Spec.ClusterIP = "10.0.0.1" })}, nil, 9999, "create 10.0.0.1 for ns1/web (repair ClusterIPNotAllocated)"},
		{"the network address of a /16", []*corev1.Service{web(withIPs("10.0.0.0"))}, nil, 9999, "report 10.0.0.0 for ns1/web (outOfRange ClusterIPOutOfRange)"},
		{"in no ServiceCIDR, with its entry", []*corev1.Service{web(withIPs("172.16.0.1"))}, []allocator.Record{record("172.16.0.1", owner("web"), 1000)}, 9999, "report 172.16.0.1 for ns1/web of ns1/web (outOfRange ClusterIPOutOfRange)"},
		{"IPv6 last address", []*corev1.Service{web(withIPs("2001:db8::ffff"))}, []allocator.Record{record("2001:db8::ffff", owner("web"), 1000)}, 9999, ""},
		{"the parent is no Service", []*corev1.Service{one}, rec(func(r *allocator.Record) { r.Owner = nobody }), 9999, "replace 10.0.0.1 for ns1/web (wrongOwner ClusterIPNotAllocated)"},
		{"the parent does not exist", []*corev1.Service{one}, rec(func(r *allocator.Record) { r.Owner = owner("gone") }), 9999, "replace 10.0.0.1 for ns1/web of ns1/gone (wrongOwner ClusterIPNotAllocated)"},
		{"the parent is a Service of that name before", []*corev1.Service{web(withIPs("10.0.0.1"), withUID("2"))}, rec(func(r *allocator.Record) { r.Owner.UID = "1" }), 9999, "replace 10.0.0.1 for ns1/web of ns1/web (wrongOwner ClusterIPNotAllocated)"},
		{"A and B list it, it names B", []*corev1.Service{one, two}, rec(func(r *allocator.Record) { r.Owner = owner("db") }), 9999, "report 10.0.0.1 for ns1/web of ns1/db (duplicate ClusterIPAlreadyAllocated)"},
		{"A and B list it, nobody has it", []*corev1.Service{one, two}, nil, 9999, "create 10.0.0.1 for ns1/db (repair ClusterIPNotAllocated); report 10.0.0.1 for ns1/web of ns1/db (duplicate ClusterIPAlreadyAllocated)"},
		{"A lists it, it names B that does not", []*corev1.Service{one, web(named("db"), withIPs("10.0.0.2"))}, append(rec(func(r *allocator.Record) { r.Owner = owner("db") }), record("10.0.0.2", owner("db"), 1000)), 9999, "delete 10.0.0.1 of ns1/db (wrongOwner IPAddressWrongReference)"},
		{"wrong labels", []*corev1.Service{one}, rec(func(r *allocator.Record) { r.Mislabeled = true }), 9999, "replace 10.0.0.1 for ns1/web of ns1/web (mislabeled )"},
		{"wrong labels, it names B that does not list it: for the current Service", []*corev1.Service{one, web(named("db"))}, rec(func(r *allocator.Record) { r.Owner, r.Mislabeled = owner("db"), true }), 9999, "replace 10.0.0.1 for ns1/web of ns1/db (mislabeled )"},
		{"foreign", []*corev1.Service{one}, rec(func(r *allocator.Record) { r.Owner, r.Foreign = nobody, true }), 9999, "report 10.0.0.1 for ns1/web (duplicate ClusterIPAlreadyAllocated)"},
		{"foreign orphan", nil, rec(func(r *allocator.Record) { r.Foreign = true }), 9999, ""},
		{"foreign but ours in name", []*corev1.Service{one}, rec(func(r *allocator.Record) { r.Foreign = true }), 9999, ""},
		{"of no Service", nil, rec(func(r *allocator.Record) { r.Owner = nobody }), 1000, "delete 10.0.0.1 (leak IPAddressNotAllocated)"},
		{"orphan, 30 s", nil, rec(func(*allocator.Record) {}), 1030, "wait 10.0.0.1 of ns1/web 30s (leak )"},
		{"orphan, 60 s", nil, rec(func(*allocator.Record) {}), 1060, "wait 10.0.0.1 of ns1/web 1s (leak )"},
		{"orphan, 70 s", nil, rec(func(*allocator.Record) {}), 1070, "delete 10.0.0.1 of ns1/web (leak IPAddressNotAllocated)"},
		{"#43 orphan of unknown age", nil, rec(func(r *allocator.Record) { r.Created = time.Time{} }), 1070, "report 10.0.0.1 of ns1/web (leak IPAddressNotAllocated)"},
		{"a second one, not newer than the Service", []*corev1.Service{one}, []allocator.Record{record("10.0.0.1", owner("web"), 1000), record("10.0.0.2", owner("web"), 1000)}, 1001, "delete 10.0.0.2 of ns1/web (wrongOwner IPAddressWrongReference)"},
		{"a second one, newer, 3 s", []*corev1.Service{one}, []allocator.Record{record("10.0.0.1", owner("web"), 1000), record("10.0.0.2", owner("web"), 2000)}, 2003, "wait 10.0.0.2 of ns1/web 2s (leak )"},
		{"a second one, newer, 10 s", []*corev1.Service{one}, []allocator.Record{record("10.0.0.1", owner("web"), 1000), record("10.0.0.2", owner("web"), 2000)}, 2010, "delete 10.0.0.2 of ns1/web (wrongOwner IPAddressWrongReference)"},
		{"ExternalName, 2 s", []*corev1.Service{web(ofType(typeExternalName))}, rec(func(*allocator.Record) {}), 1002, "wait 10.0.0.1 of ns1/web 58s (leak )"},
		{"ExternalName, 71 s", []*corev1.Service{web(ofType(typeExternalName))}, rec(func(*allocator.Record) {}), 1071, "delete 10.0.0.1 of ns1/web (wrongOwner IPAddressWrongReference)"},
		{"text that is not canonical: both sides agree", []*corev1.Service{web(withIPs("2001:DB8:0::7"))}, []allocator.Record{record("2001:db8::7", owner("web"), 1000)}, 9999, ""},
		{"leading zeros: both sides agree", []*corev1.Service{web(withIPs("010.000.0.7"))}, []allocator.Record{record("10.0.0.7", owner("web"), 1000)}, 9999, ""},
		{"#44 a Service under deletion has its address", []*corev1.Service{web(withIPs("10.0.0.1"), func(s *corev1.Service) {
			now := metav1.NewTime(time.Unix(2000, 0))
			s.DeletionTimestamp, s.Finalizers = &now, []string{"example.com/wait"}
		})}, rec(func(*allocator.Record) {}), 9999, ""},
	}
	for _, tt := range tests {
		t.Run("2.5 "+tt.name, func(t *testing.T) {
			got := allocator.AddressRepair{
				Services: tt.services, Records: tt.records, Now: time.Unix(tt.now, 0),
				Ranges: []netip.Prefix{prefix("10.0.0.0/16"), prefix("2001:db8::/112"), prefix("2001:db8::/48")},
			}.Findings()
			if show(got) != tt.want {
				t.Errorf("got  %s\nwant %s", show(got), tt.want)
			}
		})
	}
}

func TestRepairIsCarriedOut(t *testing.T) {
	ctx := t.Context()
	findings := func(store *allocator.MemoryStore, services ...*corev1.Service) []allocator.Finding[netip.Addr] {
		records, _ := store.List(ctx)
		return allocator.AddressRepair{
			Services: services, Records: records, Ranges: []netip.Prefix{prefix("10.96.0.0/16")}, Now: time.Unix(5000, 0),
		}.Findings()
	}
	newStore := func() *allocator.MemoryStore {
		return allocator.NewMemoryStore(func() time.Time { return time.Unix(0, 0) })
	}
	t.Run("2.5 after it, nothing is left to do", func(t *testing.T) {
		store := newStore()
		wantError(t, "Create", store.Create(ctx, addr("10.96.0.9"), owner("gone")), nil)
		wantError(t, "Create", store.Create(ctx, addr("10.96.0.8"), owner("gone")), nil)
		services := []*corev1.Service{service(withIPs("10.96.0.8")), service(named("db"), withIPs("10.96.0.7"))}
		wantError(t, "Repair", allocator.Repair(ctx, store, findings(store, services...), nil), nil)
		if got := show(findings(store, services...)); got != "" {
			t.Errorf("left: %s", got)
		}
		if _, ok, _ := store.Get(ctx, addr("10.96.0.9")); ok {
			t.Error("the leak is still there")
		}
	})
	t.Run("#43 in flight: the address is not freed, a second Service is refused", func(t *testing.T) {
		m, store := newMulti(t, "10.96.0.0/16") // a store with the real clock: the entry is new
		x := addr("10.96.3.3")
		wantError(t, "Claim", m.Claim(ctx, x, owner("web")), nil)
		records, _ := store.List(ctx)
		first := allocator.AddressRepair{Records: records, Ranges: []netip.Prefix{prefix("10.96.0.0/16")}, Now: records[0].Created.Add(time.Second)}
		wantError(t, "Repair", allocator.Repair(ctx, store, first.Findings(), nil), nil)
		wantError(t, "Claim by another", m.Claim(ctx, x, owner("db")), allocator.ErrTaken)
		first.Services = []*corev1.Service{service(withIPs("10.96.3.3"))}
		first.Now = first.Now.Add(time.Hour)
		if got := show(first.Findings()); got != "" {
			t.Errorf("after it is stored: %s", got)
		}
	})
	t.Run("#44 an old list does not reserve the address of a Service that is gone", func(t *testing.T) {
		store := newStore()
		old := findings(store, service(withIPs("10.96.3.3")))
		gone := func(context.Context, allocator.Owner) (bool, error) { return false, nil }
		wantError(t, "Repair", allocator.Repair(ctx, store, old, gone), nil)
		wantError(t, "a new Service", store.Create(ctx, addr("10.96.3.3"), owner("db")), nil)
	})
	t.Run("2.5 errors and races", func(t *testing.T) {
		forbidden := errors.New("forbidden")
		store := newStore()
		list := findings(store, service(withIPs("10.96.3.3")), service(named("db"), withIPs("10.96.3.4")))
		wantError(t, "Create", store.Create(ctx, addr("10.96.3.3"), owner("web")), nil) // faster
		asked := 0
		err := allocator.Repair(ctx, store, list, func(context.Context, allocator.Owner) (bool, error) {
			asked++
			return false, forbidden
		})
		wantError(t, "Repair", err, forbidden)
		if asked != 1 {
			t.Errorf("asked %d times, want once", asked)
		}
	})
}

// portsOf lists ports of a NodePort Service.
func portsOf(name string, texts ...string) *corev1.Service {
	return service(named(name), ofType(typeNodePort), withPorts(texts...))
}

func TestPortRepair(t *testing.T) {
	tests := []struct {
		name     string
		services []*corev1.Service
		held     map[uint16]string
		want     string
	}{
		{"all is well", []*corev1.Service{portsOf("web", "80/TCP=30080")}, map[uint16]string{30080: "web"}, ""},
		{"protocols share a number", []*corev1.Service{portsOf("web", "53/TCP=30053", "53/UDP=30053")}, map[uint16]string{30053: "web"}, ""},
		{"missing", []*corev1.Service{portsOf("web", "80/TCP=30080")}, nil, "create 30080 for ns1/web (repair PortNotAllocated)"},
		{"out of range", []*corev1.Service{portsOf("web", "80/TCP=80")}, nil, "report 80 for ns1/web (outOfRange PortOutOfRange)"},
		{"number and protocol twice", []*corev1.Service{portsOf("web", "80/TCP=30080", "81/TCP=30080")}, map[uint16]string{30080: "web"}, "report 30080 for ns1/web of ns1/web (duplicate PortAlreadyAllocated)"},
		{"two Services, the holder is the younger one", []*corev1.Service{with(portsOf("a", "80/TCP=30080"), createdAt(1)), with(portsOf("b", "80/UDP=30080"), createdAt(2))}, map[uint16]string{30080: "b"}, "report 30080 for ns1/a of ns1/b (duplicate PortAlreadyAllocated)"},
		{"two Services, nobody holds it", []*corev1.Service{with(portsOf("b", "80/TCP=30080"), createdAt(1)), with(portsOf("a", "80/UDP=30080"), createdAt(2))}, nil, "create 30080 for ns1/b (repair PortNotAllocated); report 30080 for ns1/a (duplicate PortAlreadyAllocated)"},
		{"held by a Service that does not list it", []*corev1.Service{portsOf("a", "80/TCP=30080"), portsOf("b")}, map[uint16]string{30080: "b"}, "replace 30080 for ns1/a of ns1/b (wrongOwner )"},
		{"held by nobody in particular, as after a restore", []*corev1.Service{portsOf("a", "80/TCP=30080")}, map[uint16]string{30080: ""}, "replace 30080 for ns1/a (wrongOwner )"},
		{"the health port", []*corev1.Service{with(portsOf("web", "80/TCP=30080"), healthPort(30100))}, map[uint16]string{30080: "web"}, "create 30100 for ns1/web (repair PortNotAllocated)"},
		{"the health port is a TCP node port", []*corev1.Service{with(portsOf("web", "80/TCP=30080"), healthPort(30080))}, map[uint16]string{30080: "web"}, "report 30080 for ns1/web of ns1/web (duplicate PortAlreadyAllocated)"},
		{"the health port is a UDP node port", []*corev1.Service{with(portsOf("web", "80/UDP=30080"), healthPort(30080))}, map[uint16]string{30080: "web"}, ""},
	}
	for _, tt := range tests {
		t.Run("3.8 "+tt.name, func(t *testing.T) {
			p := newPorts(t, "30000-32767", allocator.Options{})
			for port, name := range tt.held {
				o := allocator.Owner{}
				if name != "" {
					o = owner(name)
				}
				wantError(t, "Claim", p.Claim(port, o), nil)
			}
			got, suspects := allocator.PortRepair{Services: tt.services, Pool: p}.Findings()
			if show(got) != tt.want || len(suspects) != 0 {
				t.Errorf("got  %s, %v\nwant %s", show(got), suspects, tt.want)
			}
			wantError(t, "Repair", p.Repair(t.Context(), got, nil), nil)
			again, _ := allocator.PortRepair{Services: tt.services, Pool: p}.Findings()
			for _, f := range again {
				if f.Remedy != allocator.Report {
					t.Errorf("left to do: %s", show(again))
				}
			}
		})
	}
	t.Run("#44 an old list does not reserve the port of a Service that is gone", func(t *testing.T) {
		p := newPorts(t, "30000-32767", allocator.Options{})
		list, _ := allocator.PortRepair{Services: []*corev1.Service{portsOf("web", "80/TCP=30080")}, Pool: p}.Findings()
		gone := func(context.Context, allocator.Owner) (bool, error) { return false, nil }
		wantError(t, "Repair", p.Repair(t.Context(), list, gone), nil)
		if p.Has(30080) {
			t.Error("the port is reserved")
		}
	})
}

func TestLeaksTakeThreePasses(t *testing.T) {
	p := newPorts(t, "30000-32767", allocator.Options{})
	wantError(t, "Claim", p.Claim(30080, owner("web")), nil)
	var suspects allocator.Suspects[uint16]
	pass := func(services ...*corev1.Service) string {
		var findings []allocator.Finding[uint16]
		findings, suspects = allocator.PortRepair{Services: services, Pool: p, Suspects: suspects}.Findings()
		wantError(t, "Repair", p.Repair(t.Context(), findings, nil), nil)
		return show(findings)
	}
	const leak = "delete 30080 of ns1/web (leak )"
	steps := []struct {
		name string
		do   func() string
		want string
	}{
		{"2.5 3.8 kept in pass 1", func() string { return pass() }, ""},
		{"2.5 3.8 kept in pass 2", func() string { return pass() }, ""},
		{"2.5 3.8 #43 used in pass 3: the counter is cleared", func() string { return pass(portsOf("web", "80/TCP=30080")) }, ""},
		{"2.5 3.8 kept in pass 1 again", func() string { return pass() }, ""},
		{"2.5 3.8 kept in pass 2 again", func() string { return pass() }, ""},
		{"2.5 3.8 dropped in pass 3", func() string { return pass() }, leak},
		{"2.5 3.8 the same value leaks again: it has its grace again", func() string {
			wantError(t, "Claim", p.Claim(30080, owner("web")), nil)
			return pass() + pass()
		}, ""},
		{"2.5 3.8 and is dropped in pass 3", func() string { return pass() }, leak},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			if got := s.do(); got != s.want {
				t.Errorf("got %q, want %q", got, s.want)
			}
		})
	}
}

func TestBitmapRepair(t *testing.T) {
	t.Run("2.5 legacy pools of addresses", func(t *testing.T) {
		p := newPool(t, "10.96.0.0/24", allocator.Options{})
		wantError(t, "Claim", p.Claim(addr("10.96.0.5"), allocator.Owner{}), nil)
		r := allocator.BitmapRepair{Pool: p, Services: []*corev1.Service{
			service(withIPs("10.96.0.5", "fd00::5")), service(named("a"), withIPs("10.97.0.1")), service(named("b"), withIPs("x")),
			service(named("c"), withIPs("10.96.0.6")), service(named("d"), headless),
		}}
		got, suspects := r.Findings()
		want := "report invalid IP for ns1/b (invalid ClusterIPNotValid); " +
			"report 10.97.0.1 for ns1/a (outOfRange ClusterIPOutOfRange); " +
			"create 10.96.0.6 for ns1/c (repair ClusterIPNotAllocated); " +
			"replace 10.96.0.5 for ns1/web (wrongOwner )"
		if show(got) != want || len(suspects) != 0 {
			t.Errorf("got  %s\nwant %s", show(got), want)
		}
		wantError(t, "Repair", p.Repair(t.Context(), got, nil), nil)
		r.Services = nil
		for pass := 1; pass <= allocator.LeakPasses; pass++ {
			var list []allocator.Finding[netip.Addr]
			list, r.Suspects = r.Findings()
			if (len(list) == 2) != (pass == 3) {
				t.Errorf("pass %d: %s", pass, show(list))
			}
		}
	})
}
