package fake_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

var (
	_ backends.Backend = (*fake.Backend)(nil)
	_ backends.Prober  = (*fake.Backend)(nil)
	_ backends.Checker = (*fake.Backend)(nil)
)

var errKernel = errors.New("kernel says no")

func name(n string) types.NamespacedName { return types.NamespacedName{Namespace: "ns1", Name: n} }

func keyOfA() plan.Key {
	return plan.Key{
		PortName: service.PortName{NamespacedName: name("a"), Protocol: corev1.ProtocolTCP},
		Family:   corev1.IPv4Protocol,
	}
}

// web returns the change that gives Service n the ClusterIP ip with one endpoint.
func web(n, ip, endpoint string) plan.Input {
	return plan.Input{
		Services: map[types.NamespacedName]*service.Service{name(n): {
			Name:  name(n),
			Ports: []service.Port{{Protocol: corev1.ProtocolTCP, Port: 80}},
			IPv4:  service.Addresses{ClusterIP: netip.MustParseAddr(ip)},
		}},
		Endpoints: map[types.NamespacedName]*endpoints.Set{name(n): endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{
			{Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}: {
				{Addr: netip.MustParseAddrPort(endpoint), Ready: true, Serving: true},
			},
		})},
	}
}

// A caller does what package proxy does with a Backend.
type caller struct {
	*fake.Backend

	plan   *plan.Plan
	cursor plan.Cursor
}

func newCaller() *caller {
	return &caller{Backend: &fake.Backend{}, plan: plan.New(plan.Config{})}
}

// do takes changes and gives them to the Backend.
func (c *caller) do(ctx context.Context, inputs ...plan.Input) error {
	for _, in := range inputs {
		var diff plan.Diff
		c.plan, diff = c.plan.Update(in)
		c.cursor.Note(diff)
	}
	d := c.cursor.Delta(c.plan)
	if d == nil {
		return nil
	}
	err := c.Sync(ctx, d)
	c.cursor.Done(d, err)
	return err
}

// goes returns where a connection goes, "" if it is not forwarded.
func (c *caller) goes(dst string) string {
	trace := c.Trace(plan.Packet{
		Source:      netip.MustParseAddr("203.0.113.7"),
		Destination: netip.MustParseAddrPort(dst),
		Protocol:    corev1.ProtocolTCP,
	})
	if trace.Verdict != plan.Forward {
		return ""
	}
	return trace.Endpoints[0].String()
}

func (c *caller) want(t *testing.T, dst, endpoint string) {
	t.Helper()
	if got := c.goes(dst); got != endpoint {
		t.Errorf("%s goes to %q, want %q", dst, got, endpoint)
	}
}

func TestSync(t *testing.T) {
	c := newCaller()
	if err := c.do(t.Context(), web("a", "10.96.0.1", "10.0.0.1:8080"), web("b", "10.96.0.2", "10.0.0.2:8080")); err != nil {
		t.Fatal(err)
	}
	c.want(t, "10.96.0.1:80", "10.0.0.1:8080")
	if err := c.do(t.Context(), web("a", "10.96.0.1", "10.0.0.9:8080")); err != nil {
		t.Fatal(err)
	}
	c.want(t, "10.96.0.1:80", "10.0.0.9:8080")
	c.want(t, "10.96.0.2:80", "10.0.0.2:8080")
	if got := c.Plan(); got != c.plan {
		t.Error("Plan is not the plan that was written")
	}
	if v := c.Violations(); len(v) > 0 {
		t.Errorf("violations: %v", v)
	}
	if err := c.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.want(t, "10.96.0.1:80", "")
}

// A change that is not in a Delta is not written: the fake would be no use if it
// took everything from the new plan.
func TestSyncWritesChangesOnly(t *testing.T) {
	c := newCaller()
	if err := c.do(t.Context(), web("a", "10.96.0.1", "10.0.0.1:8080")); err != nil {
		t.Fatal(err)
	}
	base := c.plan
	next, _ := base.Update(web("a", "10.96.0.1", "10.0.0.9:8080"))
	if err := c.Sync(t.Context(), &plan.Delta{New: next, Base: base}); err != nil {
		t.Fatal(err)
	}
	c.want(t, "10.96.0.1:80", "10.0.0.1:8080")
}

func TestSyncTreatsForeignBaseAsFull(t *testing.T) {
	c := newCaller()
	next, _ := c.plan.Update(web("a", "10.96.0.1", "10.0.0.1:8080"))
	if err := c.Sync(t.Context(), &plan.Delta{New: next, Base: c.plan}); err != nil {
		t.Fatal(err)
	}
	c.want(t, "10.96.0.1:80", "10.0.0.1:8080")
}

func TestFailCall(t *testing.T) {
	c := newCaller()
	c.FailCall(2, errKernel)
	if err := c.do(t.Context(), web("a", "10.96.0.1", "10.0.0.1:8080")); err != nil {
		t.Fatal(err)
	}
	if err := c.do(t.Context(), web("a", "10.96.0.1", "10.0.0.9:8080")); !errors.Is(err, errKernel) {
		t.Errorf("second Sync = %v, want %v", err, errKernel)
	}
	c.want(t, "10.96.0.1:80", "10.0.0.1:8080")
	if err := c.do(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.want(t, "10.96.0.1:80", "10.0.0.9:8080")
	calls := c.Calls()
	if len(calls) != 3 || !errors.Is(calls[1].Err, errKernel) || !calls[2].Delta.Full {
		t.Errorf("calls: %+v", calls)
	}
}

func TestFailPort(t *testing.T) {
	c := newCaller()
	c.FailPort(keyOfA(), errKernel)
	err := c.do(t.Context(), web("a", "10.96.0.1", "10.0.0.1:8080"), web("b", "10.96.0.2", "10.0.0.2:8080"))
	var partial *plan.PartialError
	if !errors.As(err, &partial) || len(partial.Ports) != 1 || !errors.Is(partial.Ports[keyOfA()], errKernel) {
		t.Fatalf("Sync = %v, want a PartialError for a", err)
	}
	c.want(t, "10.96.0.1:80", "")
	c.want(t, "10.96.0.2:80", "10.0.0.2:8080")
	c.FailPort(keyOfA(), nil)
	if err := c.do(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.want(t, "10.96.0.1:80", "10.0.0.1:8080")
}

// Without transactions a failed call may have done any part of its work; one good
// Sync puts all right.
func TestFailWrite(t *testing.T) {
	for step := range 3 {
		c := newCaller()
		if err := c.do(t.Context(), web("a", "10.96.0.1", "10.0.0.1:8080")); err != nil {
			t.Fatal(err)
		}
		c.FailWrite(step+1, errKernel)
		changes := []plan.Input{
			web("a", "10.96.0.1", "10.0.0.9:8080"), web("b", "10.96.0.2", "10.0.0.2:8080"), web("c", "10.96.0.3", "10.0.0.3:8080"),
		}
		if err := c.do(t.Context(), changes...); !errors.Is(err, errKernel) {
			t.Fatalf("Sync = %v, want %v", err, errKernel)
		}
		if got := c.Plan().Len(); got != max(1, step) {
			t.Errorf("step %d: %d ports in place", step, got)
		}
		if err := c.do(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := c.Plan().String(), c.plan.String(); got != want {
			t.Errorf("step %d: in place:\n%s\nwant:\n%s", step, got, want)
		}
	}
}

func TestWipe(t *testing.T) {
	c := newCaller()
	if err := c.do(t.Context(), web("a", "10.96.0.1", "10.0.0.1:8080")); err != nil {
		t.Fatal(err)
	}
	c.Wipe()
	c.want(t, "10.96.0.1:80", "")
	if changed, err := c.Check(t.Context()); len(changed) == 0 || err != nil {
		t.Errorf("Check = %q, %v, want a change", changed, err)
	}
	c.cursor.Reset()
	if err := c.do(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.want(t, "10.96.0.1:80", "10.0.0.1:8080")
	if changed, err := c.Check(t.Context()); len(changed) > 0 || err != nil {
		t.Errorf("Check = %q, %v, want nothing", changed, err)
	}
}

func TestFailCheckAndProbe(t *testing.T) {
	c := newCaller()
	c.FailCheck(errKernel)
	c.FailProbe(errKernel)
	if changed, err := c.Check(t.Context()); len(changed) > 0 || !errors.Is(err, errKernel) {
		t.Errorf("Check = %q, %v", changed, err)
	}
	if err := c.Probe(t.Context()); !errors.Is(err, errKernel) {
		t.Errorf("Probe = %v", err)
	}
	c.FailProbe(nil)
	if err := c.Probe(t.Context()); err != nil {
		t.Errorf("Probe = %v", err)
	}
}

func TestViolations(t *testing.T) {
	c := newCaller()
	if err := c.do(t.Context(), web("a", "10.96.0.1", "10.0.0.1:8080")); err != nil {
		t.Fatal(err)
	}
	base := c.plan
	next, _ := base.Update(web("a", "10.96.0.1", "10.0.0.9:8080"))
	change := plan.Change{Key: keyOfA(), After: next.Port(keyOfA())}
	if err := c.Sync(t.Context(), &plan.Delta{New: next, Base: base, Changes: []plan.Change{change}}); err != nil {
		t.Fatal(err)
	}
	c.FailWrite(1, errKernel)
	if err := c.Sync(t.Context(), plan.Full(base)); !errors.Is(err, errKernel) {
		t.Fatalf("Sync = %v, want %v", err, errKernel)
	}
	if err := c.Sync(t.Context(), &plan.Delta{New: base, Base: next}); err != nil {
		t.Fatal(err)
	}
	v := c.Violations()
	if len(v) != 2 || !strings.Contains(v[0], "Before") || !strings.Contains(v[1], "Full") {
		t.Errorf("violations: %q, want a missing version and a missing Full", v)
	}
}

// TestVersionsInPlace compares what is in place with Before by content, and only if the caller knows what is in place.
func TestVersionsInPlace(t *testing.T) {
	key := keyOfA()
	for _, tt := range []struct {
		name   string
		before string // the endpoint of the version that is promised
		base   func(*caller) *plan.Plan
		want   int
	}{
		{"equal, in other memory", "10.0.0.1:8080", func(c *caller) *plan.Plan { return c.plan }, 0},
		{"another version", "10.0.0.2:8080", func(c *caller) *plan.Plan { return c.plan }, 1},
		{"another version, by a caller with another base", "10.0.0.2:8080", func(*caller) *plan.Plan { return plan.New(plan.Config{}) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newCaller()
			if err := c.do(t.Context(), web("a", "10.96.0.1", "10.0.0.1:8080")); err != nil {
				t.Fatal(err)
			}
			promised, _ := plan.New(plan.Config{}).Update(web("a", "10.96.0.1", tt.before))
			next, _ := c.plan.Update(web("a", "10.96.0.1", "10.0.0.9:8080"))
			change := plan.Change{Key: key, Before: []*plan.Port{promised.Port(key)}, After: next.Port(key)}
			if err := c.Sync(t.Context(), &plan.Delta{New: next, Base: tt.base(c), Changes: []plan.Change{change}}); err != nil {
				t.Fatal(err)
			}
			if v := c.Violations(); len(v) != tt.want {
				t.Errorf("violations: %q, want %d", v, tt.want)
			}
		})
	}
}

// TestOnSync lets a function end a call before anything is written.
func TestOnSync(t *testing.T) {
	c := newCaller()
	if p := c.Plan(); p == nil || p.Len() != 0 {
		t.Errorf("before the first Sync the Plan is %v, want one without Services", p)
	}
	var seen *plan.Delta
	c.OnSync(func(_ context.Context, d *plan.Delta) error {
		seen = d
		return errKernel
	})
	if err := c.do(t.Context(), web("a", "10.96.0.1", "10.0.0.1:8080")); !errors.Is(err, errKernel) || seen == nil || seen.New != c.plan {
		t.Errorf("Sync = %v, and the function saw %v", err, seen)
	}
	c.want(t, "10.96.0.1:80", "")
	c.OnSync(nil)
	if err := c.do(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.want(t, "10.96.0.1:80", "10.0.0.1:8080")
}

func TestCallsAreBounded(t *testing.T) {
	c := newCaller()
	d := plan.Full(c.plan)
	for range 1100 {
		if err := c.Sync(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.Calls()); n != 1000 {
		t.Errorf("%d calls are kept, want 1000", n)
	}
}
