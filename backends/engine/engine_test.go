package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/engine"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

var (
	_ backends.Backend = (*engine.Engine[string, string])(nil)
	_ backends.Checker = (*engine.Engine[string, string])(nil)
)

// A rig is an engine, its caller and its data plane.
type rig struct {
	*testing.T

	plane  *plane
	engine *engine.Engine[string, string]
	cursor plan.Cursor
	plan   *plan.Plan
}

func newRig(t *testing.T) *rig {
	t.Helper()
	p := &plane{has: map[string]string{}}
	return &rig{T: t, plane: p, engine: engine.New(p, engine.Options{Name: "test"}), plan: plan.New(config())}
}

// set makes versions of Services, given by name and external IP in turn; "-" removes one.
func (r *rig) set(namesAndIPs ...string) {
	in := plan.Input{Services: map[types.NamespacedName]*service.Service{}}
	for i := 0; i < len(namesAndIPs); i += 2 {
		n := types.NamespacedName{Namespace: "ns", Name: namesAndIPs[i]}
		in.Services[n] = nil
		if ip := namesAndIPs[i+1]; ip != "-" {
			s := &service.Service{Name: n, Ports: []service.Port{{Protocol: corev1.ProtocolTCP, Port: 80}}}
			s.IPv4.ClusterIP = netip.AddrFrom4([4]byte{10, 0, 0, namesAndIPs[i][0]})
			if ip != "" {
				s.IPv4.ExternalIPs = []netip.Addr{netip.MustParseAddr(ip)}
			}
			in.Services[n] = s
		}
	}
	next, diff := r.plan.Update(in)
	r.plan = next
	r.cursor.Note(diff)
}

// sync returns the names of the Services that were not done.
func (r *rig) sync() []string {
	r.Helper()
	d := r.cursor.Delta(r.plan)
	err := r.engine.Sync(r.Context(), d)
	r.cursor.Done(d, err)
	var partial *plan.PartialError
	if err != nil && !errors.As(err, &partial) {
		r.Fatal(err)
	}
	var bad []string
	if partial != nil {
		for k := range partial.Ports {
			bad = append(bad, k.Name)
		}
	}
	slices.Sort(bad)
	return bad
}

func (r *rig) has(id, want string) {
	r.Helper()
	if have := r.plane.has[id]; have != want {
		r.Errorf("%s is %q, want %q", id, have, want)
	}
}

const vip = "198.51.100.1:80"

// A port that cannot be written gives its address to another one, and does not take it back when it is repaired.
func TestHeldPortGivesUpAnAddress(t *testing.T) {
	for _, halfway := range []bool{false, true} {
		r := newRig(t)
		r.set("a", "198.51.100.1", "b", "")
		r.sync()
		r.has(vip, of("a"))
		r.plane.refusedID, r.plane.halfway = "198.51.100.2:80", halfway
		r.set("a", "198.51.100.2", "b", "198.51.100.1")
		if bad := r.sync(); !slices.Equal(bad, []string{"a"}) {
			t.Errorf("not done: %v, want a", bad)
		}
		r.has(vip, of("b"))
		r.has("198.51.100.2:80", "")
		r.has("10.0.0.97:80", of("a")) // as it was
		r.plane.refusedID = ""
		if bad := r.sync(); bad != nil {
			t.Errorf("not done: %v", bad)
		}
		r.has(vip, of("b"))
		r.has("198.51.100.2:80", of("a"))
	}
}

// An address that passes to a port which is refused does not stay with the one that let go of it, also if everything is read.
func TestRefusedReceiverOfAMove(t *testing.T) {
	for _, full := range []bool{false, true} {
		r := newRig(t)
		r.set("a", "198.51.100.1", "b", "")
		r.sync()
		r.plane.refused = map[string]bool{"b": true}
		r.set("a", "", "b", "198.51.100.1")
		if full {
			r.cursor.Reset()
		}
		if bad := r.sync(); !slices.Equal(bad, []string{"b"}) {
			t.Errorf("full %t: not done: %v, want b", full, bad)
		}
		r.has(vip, "")
		r.has("10.0.0.98:80", of("b")) // as it was
		r.plane.refused = nil
		r.sync()
		r.has(vip, of("b"))
	}
}

// An address that passes from one port to another is never without one: it is one edit of one write.
func TestMoveIsOneEdit(t *testing.T) {
	r := newRig(t)
	r.set("a", "198.51.100.1", "b", "")
	r.sync()
	r.plane.writes, r.plane.lists = 0, 0
	r.set("a", "", "b", "198.51.100.1")
	r.sync()
	r.has(vip, of("b"))
	if r.plane.writes != 1 || r.plane.lists != 0 {
		t.Errorf("%d writes and %d lists, want one write", r.plane.writes, r.plane.lists)
	}
	if s := r.engine.LastStats(); s.Full || s.Written != 1 || s.Changes != 2 || s.Commits != 1 {
		t.Errorf("stats are %+v, want one object written for two ports", s)
	}
}

// One Service among many that is refused takes a number of writes that grows with the logarithm of their number.
func TestOneOfManyIsRefused(t *testing.T) {
	r := newRig(t)
	var all []string
	for i := range 64 {
		all = append(all, string(rune(i+40)), "")
	}
	r.plane.refused = map[string]bool{"A": true}
	r.set(all...)
	if bad := r.sync(); !slices.Equal(bad, []string{"A"}) {
		t.Errorf("not done: %v, want A", bad)
	}
	if r.plane.writes > 16 {
		t.Errorf("%d writes, want one or two for each halving", r.plane.writes)
	}
	r.plane.writes = 0
	r.set("B", "198.51.100.1")
	r.sync()
	if r.plane.writes > 4 {
		t.Errorf("%d writes after that", r.plane.writes)
	}
}

// Ports that each give up something of their own do not stand or fall together: one that is refused costs as few writes
// when all change.
func TestOneOfManyChangesIsRefused(t *testing.T) {
	r := newRig(t)
	var before, after []string
	for i := range 64 {
		name := string(rune(i + 40))
		before = append(before, name, fmt.Sprintf("198.51.100.%d", i))
		after = append(after, name, fmt.Sprintf("203.0.113.%d", i))
	}
	r.set(before...)
	r.sync()
	r.plane.refused, r.plane.writes = map[string]bool{"A": true}, 0
	r.set(after...)
	if bad := r.sync(); !slices.Equal(bad, []string{"A"}) {
		t.Errorf("not done: %v, want A", bad)
	}
	if r.plane.writes > 16 {
		t.Errorf("%d writes, want one or two for each halving", r.plane.writes)
	}
	r.has("203.0.113.24:80", of("@"))
	r.has("198.51.100.25:80", of("A")) // as it was
}

// What belongs to no port cannot be left out.
func TestNodeIsRefused(t *testing.T) {
	p := &plane{has: map[string]string{}, refused: map[string]bool{}}
	e := engine.New[string, string](nodeless{p}, engine.Options{Name: "test"})
	var partial *plan.PartialError
	if err := e.Sync(t.Context(), plan.Full(plan.New(config("192.0.2.1")))); err == nil || errors.As(err, &partial) {
		t.Errorf("Sync = %v, want an error that says that nothing is known", err)
	}
}

type nodeless struct{ *plane }

func (nodeless) Write(context.Context, []edit) error { return engine.ErrRefused }

// Of the objects of one port with the same ID the first counts, whatever their ranks.
func TestFirstOfOnePortCounts(t *testing.T) {
	r := newRig(t)
	r.engine = engine.New[string, string](doubtful{r.plane}, engine.Options{})
	r.set("a", "", "b", "")
	r.sync()
	r.has("x", "first of "+of("a"))
	r.set("a", "-")
	r.sync()
	r.has("x", "first of "+of("b"))
}

type doubtful struct{ *plane }

func (d doubtful) Compile(p *plan.Plan, port *plan.Port, prev []object) ([]object, error) {
	out, err := d.plane.Compile(p, port, prev)
	if port != nil {
		who := of(port.Name)
		out = append(out, object{ID: "x", Value: "first of " + who, Shared: true}, object{ID: "x", Value: "second of " + who, Shared: true, Rank: 1})
	}
	return out, err
}

func TestConfigIsComparedWithoutList(t *testing.T) {
	r := newRig(t)
	r.set("a", "")
	r.sync()
	r.plane.lists = 0
	c := config("192.0.2.1")
	next, diff := r.plan.Update(plan.Input{Config: &c})
	r.plan = next
	r.cursor.Note(diff)
	r.sync()
	r.has("node 192.0.2.1", "here")
	if r.plane.lists != 0 {
		t.Error("a change of the configuration lists the data plane")
	}
}

func TestCleanup(t *testing.T) {
	r := newRig(t)
	r.set("a", "198.51.100.1", "b", "")
	r.sync()
	again := engine.New(r.plane, engine.Options{PieceSize: 2}) // a new process
	if err := again.Cleanup(t.Context()); err != nil || len(r.plane.has) > 0 {
		t.Errorf("Cleanup = %v, and left %v", err, r.plane.has)
	}
	r.cursor.Reset()
	r.sync()
	r.has(vip, of("a"))
}

// After Cleanup nothing is taken for granted, not even what the caller says was there.
func TestCleanupForgets(t *testing.T) {
	r := newRig(t)
	r.set("a", "198.51.100.1")
	r.sync()
	if err := r.engine.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if changed, err := r.engine.Check(t.Context()); changed != nil || err != nil {
		t.Errorf("after Cleanup Check = %v, %v", changed, err)
	}
	r.set("b", "")
	r.sync()
	r.has(vip, of("a"))
	if !r.engine.LastStats().Full {
		t.Error("the Sync after Cleanup has not listed")
	}
}

func TestCheck(t *testing.T) {
	r := newRig(t)
	if changed, err := r.engine.Check(t.Context()); changed != nil || err != nil {
		t.Errorf("before the first Sync Check = %v, %v", changed, err)
	}
	r.set("a", "198.51.100.1")
	r.sync()
	long := strings.Repeat("alien ", 100)
	r.plane.has[vip], r.plane.has[long] = "somebody else's", "here"
	delete(r.plane.has, "10.0.0.97:80")
	changed, err := r.engine.Check(t.Context())
	slices.Sort(changed)
	want := []string{"added: " + long[:backends.MostChangedText-len("added: ")], "changed: " + vip, "missing: 10.0.0.97:80"}
	if err != nil || !slices.Equal(changed, want) {
		t.Errorf("Check = %q, %v, want %q", changed, err, want)
	}
	r.plane.failList = errGone
	if changed, err := r.engine.Check(t.Context()); changed != nil || !errors.Is(err, errGone) {
		t.Errorf("Check = %v, %v, want only the error", changed, err)
	}
	r.plane.failList = nil
	for i := range 20 {
		r.plane.has[fmt.Sprint("alien ", i)] = "here"
	}
	if changed, _ := r.engine.Check(t.Context()); len(changed) != backends.MostChanged {
		t.Errorf("Check names %d objects, want %d", len(changed), backends.MostChanged)
	}
}

// The texts of errors name the backend once, and the port.
func TestErrors(t *testing.T) {
	r := newRig(t)
	r.plane.refused = map[string]bool{"a": true}
	r.set("a", "", "b", "")
	d := r.cursor.Delta(r.plan)
	err := r.engine.Sync(t.Context(), d)
	if err == nil || !errors.Is(err, engine.ErrRefused) || strings.Count(err.Error(), "test:") != 1 || !strings.Contains(err.Error(), "ns/a") {
		t.Errorf("Sync = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := engine.New(r.plane, engine.Options{}).Sync(ctx, plan.Full(r.plan)); !errors.Is(err, context.Canceled) {
		t.Errorf("Sync with a context that is done = %v", err)
	}
}

// A printer is a data plane that prints what it is asked to write, in order.
type printer map[netip.AddrPort]string

func (printer) Compile(_ *plan.Plan, port *plan.Port, _ []engine.Object[netip.AddrPort, string]) ([]engine.Object[netip.AddrPort, string], error) {
	if port == nil {
		return nil, nil // nothing but frontends
	}
	var out []engine.Object[netip.AddrPort, string]
	for _, f := range port.Frontends {
		out = append(out, engine.Object[netip.AddrPort, string]{ID: netip.AddrPortFrom(f.Addr, f.Port), Value: port.Key.String()})
	}
	return out, nil
}

func (printer) Equal(a, b string) bool { return a == b }

func (p printer) List(context.Context) (iter.Seq2[netip.AddrPort, string], error) {
	return maps.All(p), nil
}

func (p printer) Write(_ context.Context, edits []engine.Edit[netip.AddrPort, string]) error {
	for _, x := range edits {
		if x.New == nil {
			fmt.Println("-", x.ID)
			delete(p, x.ID)
			continue
		}
		fmt.Println("+", x.ID, *x.New)
		p[x.ID] = *x.New
	}
	return nil
}

func Example() {
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	p, _ := plan.New(plan.Config{}).Update(plan.Input{Services: map[types.NamespacedName]*service.Service{web: {
		Name: web, Ports: []service.Port{{Protocol: corev1.ProtocolTCP, Port: 80}},
		IPv4: service.Addresses{ClusterIP: netip.MustParseAddr("10.96.0.10")},
	}}})
	left := printer{netip.MustParseAddrPort("10.96.0.99:80"): "default/old"} // by an earlier process
	e := engine.New(left, engine.Options{Name: "printer"})
	fmt.Println(e.Sync(context.Background(), plan.Full(p)))
	fmt.Println(e.Sync(context.Background(), plan.Full(p)))
	// Output:
	// + 10.96.0.10:80 default/web
	// - 10.96.0.99:80
	// <nil>
	// <nil>
}
