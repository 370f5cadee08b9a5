package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

// consumer is a Cursor with the Plan that it is to reach.
type consumer struct {
	plan.Cursor

	p *plan.Plan
}

func (c *consumer) update(in plan.Input) {
	p, d := c.p.Update(in)
	c.p = p
	c.Note(d)
}

// show writes a Delta as text: "full" and "config", and for each port its
// versions, each as the endpoints of its cluster pool, "-" if there is none.
func show(d *plan.Delta) string {
	if d == nil {
		return "nothing"
	}
	var words []string
	if d.Full {
		words = append(words, "full")
	}
	if d.Config {
		words = append(words, "config")
	}
	for _, c := range d.Changes {
		before := make([]string, len(c.Before))
		for i, p := range c.Before {
			before[i] = version(p)
		}
		words = append(words, fmt.Sprintf("%s[%s>%s]", c.Key.Name, strings.Join(before, ","), version(c.After)))
	}
	for _, n := range d.Health {
		words = append(words, "health:"+n.Name)
	}
	return strings.Join(words, " ")
}

func version(p *plan.Port) string {
	if p == nil {
		return "-"
	}
	return strings.ReplaceAll(letters(p.Cluster), " ", "")
}

var errWhole = errors.New("boom")

func failed(names ...string) error {
	e := &plan.PartialError{Ports: map[plan.Key]error{}}
	for _, n := range names {
		e.Ports[key("ns1/"+n+":p80", v4)] = errWhole
	}
	return fmt.Errorf("backend: %w", e)
}

func set(n, list string) plan.Input {
	return onlySet("ns1/"+n, eps(strings.Split(list, ",")...))
}

func TestCursor(t *testing.T) {
	type step struct {
		in   *plan.Input // nil: no update
		want string      // the Delta
		err  error       // how it ends
	}
	in := func(i plan.Input) *plan.Input { return &i }
	a := func(list string) *plan.Input { return in(set("a", list)) }
	gone := in(only("ns1/a", nil))
	back := in(only("ns1/a", rival(1, "a")))
	tests := []struct {
		name  string
		steps []step
	}{
		{"nothing after an acknowledgement", []step{{nil, "full config a[>a] b[>b]", nil}, {nil, "nothing", nil}, {a("a R,c R"), "a[a>ac]", nil}, {nil, "nothing", nil}}},
		{"#5 a failed round is kept", []step{
			{nil, "full config a[>a] b[>b]", nil},
			{a("c R"), "a[a>c]", errWhole},
			{nil, "full config a[a,c>c] b[b>b]", errWhole},
			{a("d R"), "full config a[a,c>d] b[b>b]", nil},
			{nil, "nothing", nil},
		}},
		{"the first round fails", []step{{nil, "full config a[>a] b[>b]", errWhole}, {a("c R"), "full config a[a>c] b[b>b]", nil}, {nil, "nothing", nil}}},
		{"a partial error keeps its ports", []step{
			{nil, "full config a[>a] b[>b]", failed("a")},
			{nil, "a[a>a]", failed("a")},
			{in(set("b", "c R")), "a[a>a] b[b>c]", failed("a")},
			{a("d R"), "a[a>d]", nil},
			{nil, "nothing", nil},
		}},
		{"versions add up, no two equal", []step{
			{nil, "full config a[>a] b[>b]", nil},
			{a("c R"), "a[a>c]", failed("a")},
			{a("d R"), "a[a,c>d]", failed("a")},
			{a("c R"), "a[a,c,d>c]", failed("a")},
			{a("a R"), "a[a,c,d>a]", nil},
			{nil, "nothing", nil},
		}},
		{"a failed removal is done again, even if the port is back", []step{
			{nil, "full config a[>a] b[>b]", nil},
			{gone, "a[a>-]", failed("a")},
			{nil, "a[a>-]", failed("a")},
			{back, "a[a>a]", nil},
			{nil, "nothing", nil},
		}},
		{"gone after a whole failure", []step{
			{nil, "full config a[>a] b[>b]", errWhole},
			{gone, "full config a[a>-] b[b>b]", nil},
			{nil, "nothing", nil},
			{back, "a[>a]", nil},
		}},
		{"a partial error may name a port that was not changed", []step{
			{nil, "full config a[>a] b[>b]", nil},
			{a("c R"), "a[a>c]", failed("b")},
			{nil, "b[b>b]", nil},
			{nil, "nothing", nil},
		}},
		{"a partial error about nothing that exists", []step{{nil, "full config a[>a] b[>b]", failed("z")}, {nil, "nothing", nil}}},
		{"a joined partial error is a whole one", []step{{nil, "full config a[>a] b[>b]", errors.Join(failed("a"), errWhole)}, {nil, "full config a[a>a] b[b>b]", nil}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &consumer{p: plan.New(config())}
			c.update(input(rival(1, "a"), eps("a R"), rival(2, "b"), eps("b R")))
			for i, s := range tt.steps {
				if s.in != nil {
					c.update(*s.in)
				}
				d := c.Delta(c.p)
				if got := show(d); got != s.want {
					t.Fatalf("step %d: delta is %q, want %q", i, got, s.want)
				}
				if d != nil {
					c.Done(d, s.err)
				}
			}
		})
	}
}

func TestCursorThereAndBack(t *testing.T) {
	c := synced(t)
	c.update(set("a", "c R"))
	c.update(set("a", "a R"))
	if got := show(c.Delta(c.p)); got != "nothing" {
		t.Errorf("delta is %q, want nothing", got)
	}
}

func synced(t *testing.T) *consumer {
	t.Helper()
	c := &consumer{p: plan.New(config())}
	c.update(input(rival(1, "a"), eps("a R"), rival(2, "b"), eps("b R")))
	if !c.Done(c.Delta(c.p), nil) {
		t.Fatal("a Delta without error is not acknowledged")
	}
	return c
}

func TestCursorKeepsWhatComesInBetween(t *testing.T) {
	t.Run("#4 a Note between Delta and Done", func(t *testing.T) {
		c := synced(t)
		c.update(set("a", "c R"))
		d := c.Delta(c.p)
		c.update(set("a", "d R"))
		c.Done(d, nil)
		if got := show(c.Delta(c.p)); got != "a[c>d]" {
			t.Errorf("delta is %q, want a[c>d]", got)
		}
	})
	t.Run("a Reset between Delta and Done", func(t *testing.T) {
		c := synced(t)
		c.update(set("a", "c R"))
		d := c.Delta(c.p)
		c.Reset()
		c.Done(d, nil)
		if d := c.Delta(c.p); d == nil || !d.Full {
			t.Errorf("delta is %q, want a full one", show(d))
		}
	})
	t.Run("a Delta that was thrown away", func(t *testing.T) {
		c := synced(t)
		c.update(set("a", "c R"))
		c.Delta(c.p)
		c.update(set("b", "d R"))
		if got := show(c.Delta(c.p)); got != "a[a>c] b[b>d]" {
			t.Errorf("delta is %q, want both changes", got)
		}
	})
	t.Run("a Reset that was asked for and thrown away", func(t *testing.T) {
		c := synced(t)
		c.Reset()
		c.Delta(c.p)
		if got := show(c.Delta(c.p)); got != "full config a[a>a] b[b>b]" {
			t.Errorf("delta is %q, want a full one", got)
		}
	})
}

func TestCursorConfigAndHealth(t *testing.T) {
	c := &consumer{p: plan.New(config())}
	c.update(input(rival(1, "a", checked), eps("a R loc")))
	d := c.Delta(c.p)
	if got := show(d); got != "full config a[>a] health:a" {
		t.Fatalf("first delta is %q", got)
	}
	c.Done(d, nil)
	cfg := config()
	cfg.ServiceCIDRs = append(cfg.ServiceCIDRs, prefix("10.96.0.0/12"))
	c.update(plan.Input{Config: &cfg})
	d = c.Delta(c.p)
	if got := show(d); got != "config" {
		t.Errorf("delta after a change of the Service CIDRs is %q", got)
	}
	c.Done(d, failed("a"))
	c.update(set("a", "a R loc,b R loc"))
	d = c.Delta(c.p)
	if got := show(d); got != "a[a>ab] health:a" {
		t.Errorf("delta after another endpoint is %q", got)
	}
	c.Done(d, errWhole)
	if got := show(c.Delta(c.p)); got != "full config a[a,ab>ab] health:a" {
		t.Errorf("delta after a failure is %q", got)
	}
}

func TestBase(t *testing.T) {
	c := &consumer{p: plan.New(config())}
	c.update(input(rival(1, "a"), eps("a R")))
	first := c.p
	d := c.Delta(c.p)
	if d.Base != nil || d.New != first {
		t.Error("first delta has a base or another plan")
	}
	c.Done(d, nil)
	c.update(set("a", "b R"))
	d = c.Delta(c.p)
	c.Done(d, errWhole)
	if d = c.Delta(c.p); d.Base != first {
		t.Error("base after a failure is not the plan that was acknowledged")
	}
	c.Done(d, failed("a"))
	if again := c.Delta(c.p); again.Base != d.New {
		t.Error("base after a partial error is not the plan that was acknowledged in part")
	}
}

func TestFull(t *testing.T) {
	p := build(config(), rival(1, "a", checked), eps("a R"), rival(2, "b"))
	if got := show(plan.Full(p)); got != "full config a[>a] b[>] health:a" {
		t.Errorf("full delta is %q", got)
	}
	if d := plan.Full(plan.New(config())); d == nil || !d.Full {
		t.Error("full delta of an empty plan is not full")
	}
}

func TestPartialError(t *testing.T) {
	e := &plan.PartialError{Ports: map[plan.Key]error{key("ns1/b:p80", v6): errors.New("no"), key("ns1/a:p80", v4): errWhole}}
	if got, want := e.Error(), "plan: 2 ports were not done: ns1/a:p80 TCP IPv4: boom; ns1/b:p80 TCP IPv6: no"; got != want {
		t.Errorf("error is %q, want %q", got, want)
	}
	if !errors.Is(fmt.Errorf("x: %w", e), errWhole) {
		t.Error("errors.Is does not see the error of a port")
	}
}

func TestFailed(t *testing.T) {
	c := synced(t)
	old := c.p.Port(key("ns1/a:p80", v4))
	in := set("a", "c R")
	in.Services = input(rival(3, "new")).Services
	c.update(in)
	c.Done(c.Delta(c.p), failed("a", "new"))
	got := c.Failed()
	if len(got) != 2 || got[key("ns1/a:p80", v4)] != old || got[key("ns1/new:p80", v4)] != nil {
		t.Errorf("failed ports are %v, want a as it was, and new as none", got)
	}
	c.Done(c.Delta(c.p), nil)
	if len(c.Failed()) != 0 {
		t.Error("failed ports are left after an acknowledgement")
	}
}

func TestDeltaIsSorted(t *testing.T) {
	var objects []any
	for i := range 20 {
		objects = append(objects, rival(i, fmt.Sprintf("s%02d", i), checked), (*endpoints.Set)(nil))
	}
	d := plan.Full(build(config(), objects...))
	if !slices.IsSortedFunc(d.Changes, func(a, b plan.Change) int { return a.Key.Compare(b.Key) }) || len(d.Changes) != 20 {
		t.Errorf("changes are not sorted: %s", show(d))
	}
	if len(d.Health) != 20 || d.Health[3].Name != "s03" {
		t.Errorf("health is not sorted: %v", d.Health)
	}
}

func TestPostpone(t *testing.T) {
	always := func(plan.Key) bool { return true }
	// start has a failed change of a, from endpoint a to c.
	start := func(t *testing.T) *consumer {
		t.Helper()
		c := synced(t)
		c.update(set("a", "c R"))
		c.Done(c.Delta(c.p), failed("a"))
		c.Postpone(always)
		return c
	}
	check := func(t *testing.T, c *consumer, want string) {
		t.Helper()
		d := c.Delta(c.p)
		if got := show(d); got != want {
			t.Errorf("delta is %q, want %q", got, want)
		}
		if d != nil {
			c.Done(d, nil)
		}
	}
	t.Run("fault F11 nothing else to do", func(t *testing.T) {
		c := start(t)
		check(t, c, "nothing")
		if len(c.Failed()) != 1 {
			t.Error("the port that failed is forgotten")
		}
		check(t, c, "a[a,c>c]")
		check(t, c, "nothing")
	})
	t.Run("fault F11 another change", func(t *testing.T) {
		c := start(t)
		c.update(set("b", "d R"))
		check(t, c, "b[b>d]")
		if len(c.Failed()) != 1 {
			t.Error("the port that failed is forgotten")
		}
		check(t, c, "a[a,c>c]")
	})
	t.Run("fault F11 there and back to what failed", func(t *testing.T) {
		c := start(t)
		c.update(set("a", "d R"))
		c.update(set("a", "c R"))
		check(t, c, "nothing")
	})
	t.Run("fault F11 its own change, and its removal", func(t *testing.T) {
		c := start(t)
		c.update(set("a", "d R"))
		check(t, c, "a[a,c>d]")
		c = start(t)
		c.update(only("ns1/a", nil))
		check(t, c, "a[a,c>-]")
	})
	t.Run("fault F11 a full Delta", func(t *testing.T) {
		c := start(t)
		c.Reset()
		check(t, c, "full config a[a,c>c] b[b>b]")
		if len(c.Failed()) != 0 {
			t.Error("the port is still taken for failed")
		}
	})
	t.Run("fault F11 an address that it has and another port gets", func(t *testing.T) {
		c := synced(t)
		c.update(only("ns1/a", rival(1, "a", externalIP("5.5.5.5"))))
		c.Done(c.Delta(c.p), nil)
		c.update(only("ns1/a", rival(1, "a")))
		c.Done(c.Delta(c.p), failed("a"))
		c.Postpone(always)
		c.update(only("ns1/b", rival(2, "b", externalIP("5.5.5.5"))))
		check(t, c, "a[a,a>a] b[b>b]")
	})
	t.Run("fault F11 it is still postponed after a failure of another", func(t *testing.T) {
		c := start(t)
		c.update(set("b", "d R"))
		c.Done(c.Delta(c.p), failed("b"))
		if len(c.Failed()) != 2 {
			t.Errorf("%d ports failed, want both", len(c.Failed()))
		}
	})
}
