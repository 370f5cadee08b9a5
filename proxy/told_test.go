package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A busyBackend is written to while the input goes on: whatever waits to be told is told then.
type busyBackend struct {
	*fake.Backend

	during func()
}

func (b *busyBackend) Sync(ctx context.Context, d *plan.Delta) error {
	b.during()
	return b.Backend.Sync(ctx, d)
}

// TestToldAfterTheWrite looks at the order of what an Observer is told, with a change of the
// input in the middle of the write.
func TestToldAfterTheWrite(t *testing.T) {
	for _, failing := range []bool{false, true} {
		t.Run(fmt.Sprintf("fault F34 write fails %v", failing), func(t *testing.T) {
			var events []string
			note := func(what string) { events = append(events, what) }
			back := &busyBackend{Backend: &fake.Backend{}}
			r := newRig(t, func(o *proxy.Options) {
				o.Backend = back
				o.Config.Node = plan.Node{Name: "n1"} // no address for NodePorts: a problem of the plan
				o.Observer.ConflictFound = func(plan.Conflict) { note("conflict") }
				o.Observer.ProblemFound = func(p plan.Problem) { note("problem of " + p.Object) }
			}).open()
			back.during = func() {
				bad := svc("c", "10.96.0.51")
				bad.Spec.ExternalIPs = []string{"x"}
				r.SetService(bad)
				note("written")
			}
			if failing {
				back.FailCall(1, errKernel)
			}
			r.addWeb("a", "10.96.0.50", "10.200.0.1")
			b := svc("b", "10.96.0.50")
			b.Spec.Type, b.Spec.Ports[0].NodePort = "NodePort", 30080
			r.SetService(b)
			if err := r.Step(t.Context()); failing != errors.Is(err, errKernel) {
				t.Fatal(err)
			}
			want := []string{"problem of Service ns1/c", "written", "conflict", "problem of Node n1"}
			if !slices.Equal(events, want) {
				t.Errorf("told %q, want %q", events, want)
			}
		})
	}
}
