package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// TestConformance is the whole test of what packets meet.
func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Config{Node: func(*testing.T) func(*testing.T) backends.Backend {
		s := &Switch{} // outlives the process
		return func(*testing.T) backends.Backend { return NewBackend(s) }
	}})
}

func Example() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Println(err)
	}
	// Output:
	// 10.96.0.10:80     forward [10.244.1.5:8080 10.244.2.7:8080]
	// 192.0.2.10:30080  forward [10.244.1.5:8080 10.244.2.7:8080]
	// 10.96.0.10:443    reject []
	//
	// 10.96.0.10:80     forward [10.244.2.7:8080]
	// 192.0.2.10:30080  forward [10.244.2.7:8080]
	// 10.96.0.10:443    reject []
}

var errSwitch = errors.New("the switch says no")

// TestFaults fails at every write of a change in turn. One good Sync later, by the same
// process or by a new one, the Switch has what a new Switch is given.
func TestFaults(t *testing.T) {
	first, _ := plan.New(plan.Config{}).Update(input("a", "10.96.0.1", "b", "10.96.0.2"))
	change := input("a", "10.96.0.3", "c", "10.96.0.2")
	change.Services[name("b")] = nil
	second, diff := first.Update(change)
	for _, restarted := range []bool{false, true} {
		for step := 0; ; step++ {
			b := NewBackend(&Switch{})
			var cursor plan.Cursor
			sync := func(p *plan.Plan) error {
				d := cursor.Delta(p)
				err := b.Sync(t.Context(), d)
				cursor.Done(d, err)
				return err
			}
			if err := sync(first); err != nil {
				t.Fatal(err)
			}
			b.Switch.Fail = failAfter(step)
			cursor.Note(diff)
			if sync(second) == nil {
				break // there are no more writes
			}
			b.Switch.Fail = nil
			if restarted {
				b, cursor = NewBackend(b.Switch), plan.Cursor{}
			}
			if err := sync(second); err != nil {
				t.Fatal(err)
			}
			compare(t, step, b.Switch, second)
		}
	}
}

// TestRepair lets somebody else empty the Switch. A Delta that is Full puts all back.
func TestRepair(t *testing.T) {
	p, _ := plan.New(plan.Config{}).Update(input("a", "10.96.0.1"))
	b := NewBackend(&Switch{})
	var cursor plan.Cursor
	for range 2 {
		d := cursor.Delta(p)
		err := b.Sync(t.Context(), d)
		cursor.Done(d, err)
		if err != nil {
			t.Fatal(err)
		}
		compare(t, 0, b.Switch, p)
		clear(b.Switch.flows)
		cursor.Reset()
	}
}

func TestCleanup(t *testing.T) {
	p, _ := plan.New(plan.Config{}).Update(input("a", "10.96.0.1"))
	b := NewBackend(&Switch{})
	if err := b.Sync(t.Context(), plan.Full(p)); err != nil {
		t.Fatal(err)
	}
	again := NewBackend(b.Switch) // a new process
	if err := again.Cleanup(t.Context()); err != nil || len(b.Switch.flows) > 0 {
		t.Errorf("Cleanup = %v and left %v", err, b.Switch.flows)
	}
}

func failAfter(writes int) func() error {
	return func() error {
		if writes--; writes < 0 {
			return errSwitch
		}
		return nil
	}
}

func compare(t *testing.T, step int, s *Switch, p *plan.Plan) {
	t.Helper()
	want := &Switch{}
	if err := NewBackend(want).Sync(t.Context(), plan.Full(p)); err != nil {
		t.Fatal(err)
	}
	same := func(f, g Flow) bool { return f.Port == g.Port }
	if !maps.EqualFunc(s.flows, want.flows, same) {
		t.Errorf("step %d: the switch has %v, want %v", step, s.flows, want.flows)
	}
}

func name(n string) types.NamespacedName { return types.NamespacedName{Namespace: "default", Name: n} }

// input makes Services, given by name and ClusterIP in turn.
func input(namesAndIPs ...string) plan.Input {
	in := plan.Input{Services: map[types.NamespacedName]*service.Service{}, Endpoints: map[types.NamespacedName]*endpoints.Set{}}
	for i := 0; i < len(namesAndIPs); i += 2 {
		n := name(namesAndIPs[i])
		in.Services[n] = &service.Service{
			Name: n, Ports: []service.Port{{Protocol: corev1.ProtocolTCP, Port: 80}},
			IPv4: service.Addresses{ClusterIP: netip.MustParseAddr(namesAndIPs[i+1])},
		}
		in.Endpoints[n] = endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{
			{Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}: {{Addr: netip.MustParseAddrPort("10.244.1.5:8080"), Ready: true, Serving: true}},
		})
	}
	return in
}
