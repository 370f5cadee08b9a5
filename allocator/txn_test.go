package allocator_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/vipkit/vipkit/allocator"
)

// wantInternal checks that err is a ClaimError for a field, and whom it blames.
func wantInternal(t *testing.T, err error, path string, internal bool) {
	t.Helper()
	var e *allocator.ClaimError
	if !errors.As(err, &e) || e.Path.String() != path || e.Internal != internal {
		t.Fatalf("error %v, want one at %s, internal %v", err, path, internal)
	}
	want := field.ErrorTypeInvalid
	if internal {
		want = field.ErrorTypeInternal
	}
	if got := e.FieldError(); got.Type != want || got.Field != path {
		t.Errorf("FieldError = %v, want %s", got, want)
	}
}

// rich is a Service that needs six values.
func rich(edits ...edit) *corev1.Service {
	return service(append([]edit{
		withPolicy("R"), ofType(typeLoadBalancer), localPolicy, withPorts("http:80/TCP", "tls:443/TCP=30443", "dns:53/UDP", "dns-tcp:53/TCP"),
	}, edits...)...)
}

func TestFailureMapping(t *testing.T) {
	tests := []struct {
		name     string
		svc      *corev1.Service
		set      func(*cluster)
		path     string
		internal bool
		want     error
	}{
		{"static address, taken", service(withIPs("10.96.0.9")), func(c *cluster) { _ = c.v4.Claim(addr("10.96.0.9"), owner("db")) }, "spec.clusterIPs[0]", false, allocator.ErrTaken},
		{"static address, out of range", service(withIPs("10.97.0.9")), nil, "spec.clusterIPs[0]", false, allocator.ErrOutOfRange},
		{"dynamic address, full", service(), func(c *cluster) { c.fill() }, "spec.clusterIPs[0]", true, allocator.ErrFull},
		{"dynamic address, other", service(), func(c *cluster) { delete(c.services.Addresses, v4) }, "spec.clusterIPs[0]", false, allocator.ErrNoRange},
		{"node port, explicit", service(ofType(typeNodePort), withPorts("80/TCP", "81/TCP=30081")), func(c *cluster) { _ = c.ports.Claim(30081, owner("db")) }, "spec.ports[1].nodePort", false, allocator.ErrTaken},
		{"node port, out of range", service(ofType(typeNodePort), withPorts("80/TCP=80")), nil, "spec.ports[0].nodePort", false, allocator.ErrOutOfRange},
		{"node port, dynamic", service(ofType(typeNodePort), withPorts("80/TCP")), func(c *cluster) { c.services.Ports = nil }, "spec.ports[0].nodePort", true, allocator.ErrNoRange},
		{"health port, dynamic", service(ofType(typeLoadBalancer), localPolicy, autoNodePorts(false)), func(c *cluster) { c.services.Ports = nil }, "spec.healthCheckNodePort", true, allocator.ErrNoRange},
	}
	for _, tt := range tests {
		t.Run("4.4 "+tt.name, func(t *testing.T) {
			c := newCluster(t, "46")
			if tt.set != nil {
				tt.set(c)
			}
			before := c.state()
			_, err := c.services.Apply(t.Context(), c.plan(t, nil, tt.svc))
			wantError(t, "Apply", err, tt.want)
			wantInternal(t, err, tt.path, tt.internal)
			if got := c.state(); got != before {
				t.Errorf("in use: %s, want %s", got, before)
			}
		})
	}
}

// fill takes all addresses of both families.
func (c *cluster) fill() {
	for _, p := range []*allocator.Pool{c.v4, c.v6} {
		for p.Stats().Free > 0 {
			_, _ = p.Pick(owner("db"))
		}
	}
}

func TestFailedCreateLeaksNothing(t *testing.T) {
	t.Run("4.4 #46 IPv4 succeeds, IPv6 is full", func(t *testing.T) {
		c := newCluster(t, "46")
		for c.v6.Stats().Free > 0 {
			_, _ = c.v6.Pick(owner("db"))
		}
		_, err := c.services.Apply(t.Context(), c.plan(t, nil, service(withPolicy("R"))))
		wantInternal(t, err, "spec.clusterIPs[1]", true)
		if got := c.v4.Stats().Used; got != 0 {
			t.Errorf("%d IPv4 addresses in use", got)
		}
	})
	t.Run("4.4 #46 IPv4 succeeds, the IPv6 asked for is taken", func(t *testing.T) {
		for range 200 {
			c := newCluster(t, "46")
			_ = c.v6.Claim(addr("fd00:10:96::9"), owner("db"))
			_, err := c.services.Apply(t.Context(), c.plan(t, nil, service(withPolicy("R"), withIPs("10.96.0.9", "fd00:10:96::9"))))
			wantInternal(t, err, "spec.clusterIPs[1]", false)
			if got := c.v4.Stats().Used; got != 0 {
				t.Fatalf("%d IPv4 addresses in use", got)
			}
		}
	})
	t.Run("#46 the second node port", func(t *testing.T) {
		c := newCluster(t, "46")
		_ = c.ports.Claim(30002, owner("db"))
		before := c.state()
		_, err := c.services.Apply(t.Context(), c.plan(t, nil, service(ofType(typeNodePort), withPorts("80/TCP=30001", "81/TCP=30002"))))
		wantInternal(t, err, "spec.ports[1].nodePort", false)
		if got := c.state(); got != before {
			t.Errorf("in use: %s, want %s", got, before)
		}
	})
	t.Run("#46 the store says that the name exists", func(t *testing.T) {
		c := newCluster(t, "46")
		txn := c.begin(t, nil, rich())
		wantError(t, "Rollback", txn.Rollback(t.Context()), nil)
		if got := c.state(); got != "" {
			t.Errorf("in use: %s", got)
		}
	})
	t.Run("4.1 creating an existing Service with its address again", func(t *testing.T) {
		c := newCluster(t, "46")
		stored := c.change(t, nil, service())
		_, err := c.services.Apply(t.Context(), c.plan(t, nil, stored))
		wantError(t, "Apply", err, allocator.ErrTaken)
		if !c.v4.Has(addr("10.96.0.17")) {
			t.Error("the Service lost its address")
		}
	})
	t.Run("#46 dry run", func(t *testing.T) {
		c := newCluster(t, "46")
		_ = c.v4.Claim(addr("10.96.0.9"), owner("db"))
		before := c.state()
		txn, err := c.services.DryRun(allocator.Truthful).Apply(t.Context(), c.plan(t, nil, rich()))
		if err != nil {
			t.Fatal(err)
		}
		if got := txn.Service().Spec; got.ClusterIPs[0] != "10.96.0.17" || got.HealthCheckNodePort == 0 {
			t.Errorf("a dry run shows %v, %d", got.ClusterIPs, got.HealthCheckNodePort)
		}
		wantError(t, "Commit", txn.Commit(t.Context()), nil)
		_, err = c.services.DryRun(allocator.Truthful).Apply(t.Context(), c.plan(t, nil, service(withIPs("10.96.0.9"))))
		wantError(t, "taken", err, allocator.ErrTaken)
		if got := c.state(); got != before {
			t.Errorf("in use: %s, want %s", got, before)
		}
	})
	t.Run("4.6 upstream dry run", func(t *testing.T) {
		c := newCluster(t, "46")
		txn, err := c.services.DryRun(allocator.AsUpstream).Apply(t.Context(), c.plan(t, nil, service(ofType(typeNodePort), withPorts("80/TCP"))))
		if err != nil {
			t.Fatal(err)
		}
		if got := txn.Service().Spec; got.ClusterIP != "10.96.0.0" || got.Ports[0].NodePort != 32769 {
			t.Errorf("got %s, %d", got.ClusterIP, got.Ports[0].NodePort)
		}
	})
}

// TestEveryFailurePoint fails and panics at each claim of every kind of change.
func TestEveryFailurePoint(t *testing.T) {
	changes := []struct {
		name     string
		from, to *corev1.Service
	}{
		{"create", nil, rich()},
		{"upgrade", service(), rich()},
		{"downgrade", rich(), service(withPolicy("S"))},
		{"to ExternalName", rich(), service(ofType(typeExternalName))},
		{"from ExternalName", service(ofType(typeExternalName)), rich()},
		{"other numbers", rich(), rich(withPorts("http:80/TCP=30001", "tls:443/TCP=30002", "dns:53/UDP=30003"))},
		{"delete", rich(), nil},
	}
	for _, tt := range changes {
		for _, cause := range []error{errors.New("broken"), nil} {
			t.Run(fmt.Sprintf("4.6 %s, cause %v", tt.name, cause), func(t *testing.T) {
				for n := 1; ; n++ {
					c := newCluster(t, "46")
					var stored *corev1.Service
					if tt.from != nil {
						stored = c.change(t, nil, tt.from)
					}
					before := c.state()
					plan := c.plan(t, stored, tt.to)
					failed := applyBroken(t, c.broken(n, cause), plan, cause)
					if failed == (n > len(plan.Claims)) {
						t.Fatalf("claim %d of %d: failed %v", n, len(plan.Claims), failed)
					}
					if got := c.state(); failed && got != before {
						t.Fatalf("claim %d: in use %s, want %s", n, got, before)
					}
					if !failed {
						break
					}
				}
			})
		}
	}
}

// applyBroken applies and rolls back, and reports whether the services broke.
func applyBroken(t *testing.T, s *allocator.Services, plan *allocator.ServicePlan, cause error) (failed bool) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			failed = true
		}
	}()
	txn, err := s.Apply(t.Context(), plan)
	if err != nil {
		wantError(t, "Apply", err, cause)
		return true
	}
	wantError(t, "Rollback", txn.Rollback(t.Context()), nil)
	return false
}

func TestTxnEnds(t *testing.T) {
	t.Run("4.6 rollback after commit, and twice", func(t *testing.T) {
		c := newCluster(t, "46")
		txn := c.begin(t, nil, service())
		wantError(t, "Commit", txn.Commit(t.Context()), nil)
		wantError(t, "Rollback", txn.Rollback(t.Context()), nil)
		wantError(t, "Commit", txn.Commit(t.Context()), allocator.ErrDone)
		wantError(t, "Replan", txn.Replan(t.Context(), c.plan(t, nil, service())), allocator.ErrDone)
		if got, want := c.state(), "10.96.0.17=ns1/web"; got != want {
			t.Errorf("in use: %s, want %s", got, want)
		}
	})
	t.Run("4.6 a rollback works for a context that is done", func(t *testing.T) {
		c := newCluster(t, "46")
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := c.broken(3, context.Canceled).Apply(ctx, c.plan(t, nil, rich()))
		wantError(t, "Apply", err, context.Canceled)
		if got := c.state(); got != "" {
			t.Errorf("in use: %s", got)
		}
	})
	t.Run("4.6 a release is for the owner only", func(t *testing.T) {
		c := newCluster(t, "46")
		stored := c.change(t, nil, service(withUID("1")))
		wantError(t, "Transfer", c.v4.Transfer(addr("10.96.0.17"), owner("web"), owner("db")), nil)
		txn := c.begin(t, stored, nil)
		wantError(t, "Commit", txn.Commit(t.Context()), allocator.ErrNotOwner)
		if !c.v4.Has(addr("10.96.0.17")) || txn.Service() != nil {
			t.Error("the address of another Service was released")
		}
	})
	t.Run("#44 an address is free the moment its Service is gone, not before", func(t *testing.T) {
		c := newCluster(t, "46")
		stored := c.change(t, nil, service(withIPs("10.96.0.33")))
		txn := c.begin(t, stored, nil) // deletion was asked for, a finalizer is left
		other := service(named("db"), withIPs("10.96.0.33"))
		_, err := c.services.Apply(t.Context(), c.plan(t, nil, other))
		wantError(t, "while it exists", err, allocator.ErrTaken)
		wantError(t, "Commit", txn.Commit(t.Context()), nil)
		c.change(t, nil, other)
		if got, want := c.state(), "10.96.0.33=ns1/db"; got != want {
			t.Errorf("in use: %s, want %s", got, want)
		}
	})
}

func TestReplan(t *testing.T) {
	t.Run("4.6 after a conflict the same values are used", func(t *testing.T) {
		c := newCluster(t, "46")
		stored := c.change(t, nil, service(withPorts("http:80/TCP")))
		txn := c.begin(t, stored, rich())
		first, held := txn.Service(), c.state()
		_ = c.v6.Claim(addr("fd00:10:96::50"), owner("db")) // somebody else is busy
		elsewhere := with(stored, func(s *corev1.Service) { s.Labels = map[string]string{"a": "b"} })
		wantError(t, "Replan", txn.Replan(t.Context(), c.plan(t, elsewhere, rich())), nil)
		second := txn.Service()
		if diff := cmp.Diff(first.Spec, second.Spec); diff != "" {
			t.Errorf("the second attempt differs (-first +second):\n%s", diff)
		}
		wantError(t, "Commit", txn.Commit(t.Context()), nil)
		if got := strings.Replace(c.state(), "fd00:10:96::50=ns1/db ", "", 1); got != held {
			t.Errorf("in use: %s, want %s", got, held)
		}
	})
	t.Run("4.6 what does not fit is given back, what is missing is claimed", func(t *testing.T) {
		c := newCluster(t, "46")
		stored := c.change(t, nil, service())
		txn := c.begin(t, stored, service(withPolicy("R"), ofType(typeNodePort), withPorts("a:80/TCP", "b:81/TCP=30001")))
		// Meanwhile somebody else made it an ExternalName.
		external := c.plan(t, service(ofType(typeExternalName)), service(withPolicy("R"), ofType(typeNodePort), withPorts("a:80/TCP=30002", "b:81/TCP")))
		wantError(t, "Replan", txn.Replan(t.Context(), external), nil)
		got := txn.Service()
		if got.Spec.ClusterIP != got.Spec.ClusterIPs[0] || got.Spec.ClusterIPs[1] != "fd00:10:96::11" {
			t.Errorf("clusterIPs %v", got.Spec.ClusterIPs)
		}
		if ports := nodePorts(got); ports[0] != 30002 || ports[1] == 0 {
			t.Errorf("node ports %v", ports)
		}
		if _, used := c.used(); used != 2 {
			t.Errorf("%d ports in use, want 2", used)
		}
	})
	t.Run("4.6 a failure rolls everything back", func(t *testing.T) {
		c := newCluster(t, "46")
		stored := c.change(t, nil, service())
		before := c.state()
		txn := c.begin(t, stored, rich())
		_ = c.ports.Claim(30777, owner("db"))
		err := txn.Replan(t.Context(), c.plan(t, stored, rich(withPorts("http:80/TCP=30777"))))
		wantInternal(t, err, "spec.ports[0].nodePort", false)
		if got, want := c.state(), before+" 30777=ns1/db"; got != want {
			t.Errorf("in use: %s, want %s", got, want)
		}
	})
}

func TestUpdatesKeepValues(t *testing.T) {
	t.Run("#45 an update without the values keeps them", func(t *testing.T) {
		c := newCluster(t, "46")
		stored := c.change(t, nil, service(withIPs("10.96.0.9"), ofType(typeNodePort), withPorts("http:80/TCP=30111")))
		got := c.change(t, stored, service(ofType(typeNodePort), withPorts("http:80/TCP")))
		if got.Spec.ClusterIP != "10.96.0.9" || got.Spec.Ports[0].NodePort != 30111 {
			t.Errorf("got %s, %d", got.Spec.ClusterIP, got.Spec.Ports[0].NodePort)
		}
	})
	t.Run("#45 a hundred updates to and fro: no drift, no leak", func(t *testing.T) {
		c := newCluster(t, "46")
		stored := c.change(t, nil, rich())
		want := c.state()
		for i := range 100 {
			if i%2 == 0 {
				stored = c.change(t, stored, service(withPolicy("R")))
				if _, ports := c.used(); ports != 0 {
					t.Fatalf("update %d: %d ports in use", i, ports)
				}
				continue
			}
			stored = c.change(t, stored, rich())
			if got := c.state(); got != want {
				t.Fatalf("update %d: in use %s, want %s", i, got, want)
			}
		}
	})
	t.Run("#71 headless without the value stays headless", func(t *testing.T) {
		c := newCluster(t, "46")
		stored := c.change(t, nil, service(headless))
		if got := c.change(t, stored, service()); got.Spec.ClusterIP != "None" || c.state() != "" {
			t.Errorf("clusterIP %q, in use: %s", got.Spec.ClusterIP, c.state())
		}
	})
	t.Run("#71 headless to an address is refused", func(t *testing.T) {
		c := newCluster(t, "46")
		stored := c.change(t, nil, service(headless))
		_, errs := allocator.Plan(stored, service(withIPs("10.96.0.77")), c.config)
		if len(errs) != 1 || errs[0].Field != "spec.clusterIPs[0]" {
			t.Errorf("got %v, want an error at spec.clusterIPs[0]", errs)
		}
	})
}
