package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// TestConformance is the whole test of what packets meet, also after failures.
func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Config{Node: func(*testing.T) func(*testing.T) backends.Backend {
		s := &Switch{} // outlives the process
		return func(*testing.T) backends.Backend {
			f := &faulty{Backend: NewBackend(s), ports: make(map[plan.Key]error)}
			s.Fail, s.FailFlows = f.fail, func() error { return f.read }
			return f
		}
	}})
}

// A faulty backend has a Switch that fails as the suite wants.
type faulty struct {
	*Backend

	plan   *plan.Plan
	ports  map[plan.Key]error
	write  error
	writes int // until write
	read   error
}

// Sync remembers the versions of ports that are to be written.
func (f *faulty) Sync(ctx context.Context, d *plan.Delta) error {
	f.plan = d.New
	return f.Backend.Sync(ctx, d)
}

func (f *faulty) FailPort(k plan.Key, err error) { f.ports[k] = err }

func (f *faulty) FailWrite(n int, err error) { f.writes, f.write = n, err }

func (f *faulty) FailRead(err error) { f.read = err }

// fail refuses one write, and what is new of the ports that shall fail.
func (f *faulty) fail(_ Match, flow *Flow) error {
	if f.writes--; f.writes == 0 && f.write != nil {
		return f.write
	}
	if flow == nil || flow.Port == nil || flow.Port != f.plan.Port(flow.Port.Key) {
		return nil
	}
	return f.ports[flow.Port.Key]
}

// Image returns the flows, for comparison.
func (f *faulty) Image(context.Context) (string, error) { //nolint:unparam // as backendtest.Imager asks
	var out strings.Builder
	for m, flow := range f.Switch.flows {
		fmt.Fprintln(&out, m, flow.Frontend, flow.Port.Endpoints(plan.ClusterPool), flow.Port.Endpoints(plan.LocalPool))
	}
	return out.String(), nil
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
		if n := len(b.Switch.flows); n != 3 { // the Service, its address and the node
			t.Errorf("the switch has %d flows, want 3", n)
		}
		clear(b.Switch.flows)
		cursor.Reset()
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
