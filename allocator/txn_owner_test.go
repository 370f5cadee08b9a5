package allocator_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/allocator"
)

// TestReplanForAnother replaces the Service of a transaction by another one, and
// deletes that at the end: nothing may be left.
func TestReplanForAnother(t *testing.T) {
	inNamespace := func(ns string) edit { return func(s *corev1.Service) { s.Namespace = ns } }
	first := rich(withUID("1"))
	tests := []struct {
		name   string
		second *corev1.Service
	}{
		{"the same values", rich(withUID("2"))},
		{"fewer values", service(withUID("2"))},
		{"other numbers", rich(withUID("2"), withPorts("http:80/TCP=30001", "tls:443/TCP=30002"))},
		{"another name", rich(withUID("1"), named("db"))},
		{"another namespace", rich(withUID("1"), inNamespace("ns2"))},
		{"a UID that was not known before", rich()},
	}
	for _, tt := range tests {
		t.Run("fault F23 "+tt.name, func(t *testing.T) {
			c := newCluster(t, "46")
			txn := c.begin(t, nil, first)
			wantError(t, "Replan", txn.Replan(t.Context(), c.plan(t, nil, tt.second)), nil)
			stored := txn.Service()
			wantError(t, "Commit", txn.Commit(t.Context()), nil)
			for a, o := range c.v4.All() {
				if !o.Same(allocator.ServiceOwner(tt.second)) {
					t.Errorf("%s is held by %s %s", a, o, o.UID)
				}
			}
			c.change(t, stored, nil)
			if got := c.state(); got != "" {
				t.Errorf("in use at the end: %s", got)
			}
		})
		t.Run("fault F23 rolled back: "+tt.name, func(t *testing.T) {
			c := newCluster(t, "46")
			txn := c.begin(t, nil, first)
			wantError(t, "Replan", txn.Replan(t.Context(), c.plan(t, nil, tt.second)), nil)
			wantError(t, "Rollback", txn.Rollback(t.Context()), nil)
			if got := c.state(); got != "" {
				t.Errorf("in use: %s", got)
			}
		})
		t.Run("fault F23 every failure point: "+tt.name, func(t *testing.T) {
			broken := errors.New("broken")
			for n := 1; ; n++ {
				c := newCluster(t, "46")
				plan := c.plan(t, nil, first)
				txn, err := c.broken(n+len(plan.Claims), broken).Apply(t.Context(), plan)
				wantError(t, "Apply", err, nil)
				err = txn.Replan(t.Context(), c.plan(t, nil, tt.second))
				wantError(t, "Rollback", txn.Rollback(t.Context()), nil)
				if got := c.state(); got != "" {
					t.Fatalf("claim %d: in use: %s", n, got)
				}
				if err == nil {
					break
				}
			}
		})
	}
	t.Run("fault F23 the UID becomes known between the attempts", func(t *testing.T) {
		c := newCluster(t, "46")
		txn := c.begin(t, nil, rich())
		held := c.state()
		wantError(t, "Replan", txn.Replan(t.Context(), c.plan(t, nil, first)), nil)
		if got := c.state(); got != held {
			t.Errorf("in use: %s, want still %s", got, held)
		}
		stored := txn.Service()
		wantError(t, "Commit", txn.Commit(t.Context()), nil)
		c.change(t, stored, nil)
		if got := c.state(); got != "" {
			t.Errorf("in use at the end: %s", got)
		}
	})
}

// A stubbornSource does not take a value back.
type stubbornSource[T comparable] struct {
	allocator.Source[T]
	value T
	err   error
}

func (s *stubbornSource[T]) Release(ctx context.Context, v T, o allocator.Owner) error {
	if v == s.value && s.err != nil {
		return s.err
	}
	return s.Source.Release(ctx, v, o)
}

func TestGivingBackFails(t *testing.T) {
	stubborn := errors.New("stubborn")
	t.Run("fault F23 a Replan that cannot give back is rolled back as it says", func(t *testing.T) {
		c := newCluster(t, "46")
		services := &allocator.Services{
			Addresses: c.services.Addresses,
			Ports:     &stubbornSource[uint16]{c.services.Ports, 30443, stubborn},
		}
		txn, err := services.Apply(t.Context(), c.plan(t, nil, rich()))
		wantError(t, "Apply", err, nil)
		err = txn.Replan(t.Context(), c.plan(t, nil, service()))
		wantError(t, "Replan", err, stubborn)
		if got, want := c.state(), "30443=ns1/web"; got != want {
			t.Errorf("in use: %s, want %s", got, want)
		}
		wantError(t, "Commit", txn.Commit(t.Context()), allocator.ErrDone)
	})
	t.Run("fault F28 a pick that cannot give a candidate back has not happened", func(t *testing.T) {
		first := newPool(t, raceRange, allocator.Options{Lowest: true})
		source := &stubbornSource[netip.Addr]{first.Source(), addr("10.0.0.1"), stubborn}
		store := allocator.NewMemoryStore(nil)
		wantError(t, "Create", store.Create(t.Context(), addr("10.0.0.1"), owner("db")), nil)
		a, err := allocator.WithStore(source, store).Pick(t.Context(), owner("web"))
		wantError(t, "Pick", err, stubborn)
		if list, _ := store.List(t.Context()); len(list) != 1 || first.Stats().Used != 1 || a.IsValid() {
			t.Errorf("Pick = %s, the store has %v, the first book %d", a, list, first.Stats().Used)
		}
	})
}

func TestRefusedCandidates(t *testing.T) {
	forbidden := errors.New("forbidden")
	tests := []struct {
		name    string
		answers []error
		want    error
		used    uint64
	}{
		{"after success", []error{allocator.ErrTaken, allocator.ErrTaken}, nil, 1},
		{"after a hard error", []error{allocator.ErrTaken, allocator.ErrTaken, forbidden}, forbidden, 0},
		{"if all are refused", []error{
			allocator.ErrTaken, allocator.ErrTaken, allocator.ErrTaken, allocator.ErrTaken, allocator.ErrTaken, allocator.ErrTaken,
		}, allocator.ErrFull, 0},
	}
	for _, tt := range tests {
		t.Run("fault F28 what the second book refuses is given back to the first "+tt.name, func(t *testing.T) {
			first := newPool(t, "10.0.0.0/29", allocator.Options{})
			store := &scriptedStore{Store: allocator.NewMemoryStore(nil), answers: tt.answers}
			a, err := allocator.WithStore(first.Source(), store).Pick(t.Context(), owner("web"))
			wantError(t, "Pick", err, tt.want)
			if got := first.Stats().Used; got != tt.used || first.Has(a) != (tt.used > 0) {
				t.Errorf("Pick = %s, the first book has %d, want %d", a, got, tt.used)
			}
		})
	}
}
