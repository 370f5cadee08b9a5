package nftables

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// failed returns the names of the ports that an error is about.
func failed(t *testing.T, err error) []string {
	t.Helper()
	var partial *plan.PartialError
	if !errors.As(err, &partial) {
		t.Fatalf("got %v, want a PartialError", err)
	}
	var names []string
	for k, err := range partial.Ports {
		if !errors.Is(err, errRefused) {
			t.Errorf("%s: %v, want the kernel's error", k, err)
		}
		names = append(names, k.Name+"/"+string(k.Family))
	}
	slices.Sort(names)
	return names
}

func TestSyncIsolates(t *testing.T) {
	t.Run("#78 E34 one bad Service of ten", func(t *testing.T) {
		b, r := inNowhere(t, Options{})
		w := newWorld(t, nodeConfig())
		r.refuse = refuseIf("10.96.0.3 ")
		var apps []app
		for i := range 10 {
			apps = append(apps, app{name: string(rune('a' + i)), vip: "10.96.0." + string(rune('0'+i)), eps: two})
		}
		if got := failed(t, w.try(b, with(apps...))); !slices.Equal(got, []string{"d/IPv4"}) {
			t.Errorf("failed %v, want only d", got)
		}
		all := strings.Join(r.texts, "")
		for _, a := range apps {
			if want := a.name != "d"; strings.Contains(all, "add element ip vipkit service-ips { "+a.vip+" ") != want && !strings.Contains(all, ", "+a.vip+" . tcp") {
				t.Errorf("%s written: %v, want %v", a.name, !want, want)
			}
		}
		r.refuse = nil
		r.clear()
		if s := w.sync(b, plan.Input{}); s.Changes != 1 || s.Full {
			t.Errorf("the next sync changed %d ports, full %v, want only the bad one", s.Changes, s.Full)
		}
	})
	t.Run("#67 one family", func(t *testing.T) {
		b, r := inNowhere(t, Options{Families: nil})
		w := newWorld(t, nodeConfig())
		r.refuse = refuseIf("add table ip6 ")
		if got := failed(t, w.try(b, with(app{name: "a", vip: "10.96.0.1 fd00::1", eps: dual}))); !slices.Equal(got, []string{"a/IPv6"}) {
			t.Errorf("failed %v, want only IPv6", got)
		}
		r.refuse = nil
		if s := w.sync(b, plan.Input{}); !s.Full {
			t.Error("the next sync is not full")
		}
	})
	t.Run("#67 no family", func(t *testing.T) {
		b, r := inNowhere(t, Options{})
		r.refuse = refuseIf("add table")
		err := newWorld(t, nodeConfig()).try(b, with(app{name: "a", vip: "10.96.0.1", eps: two}))
		if !errors.Is(err, errRefused) || isPartial(err) {
			t.Errorf("got %v, want the kernel's error and no PartialError", err)
		}
	})
	t.Run("#6 a transaction of which nobody knows is not repeated", func(t *testing.T) {
		b, r := inNowhere(t, Options{})
		n := r.runner.(*nowhere)
		r.refuse = func(string) error { n.commits++; return errRefused }
		w := newWorld(t, nodeConfig())
		if err := w.try(b, with(app{name: "a", vip: "10.96.0.1", eps: two})); err == nil || isPartial(err) {
			t.Errorf("got %v, want an error as a whole", err)
		}
		if n.commits != 1 {
			t.Errorf("tried %d times", n.commits)
		}
		r.refuse = nil
		if s := w.sync(b, plan.Input{}); !s.Full {
			t.Error("the next sync does not read the kernel")
		}
	})
}

// TestSyncMoves moves a frontend from one Service to another.
func TestSyncMoves(t *testing.T) {
	b, r := inNowhere(t, Options{})
	w := newWorld(t, nodeConfig())
	w.sync(b, with(app{name: "a", vip: "10.96.0.1", eps: two}))
	r.clear()
	t.Run("#18 port name changes, number stays: only comments", func(t *testing.T) {
		rename := func(s *service.Service) { s.Ports[0].Name = "web" }
		w.sync(b, with(app{name: "a", vip: "10.96.0.1", eps: two, change: rename}))
		want := []string{
			"delete element ip vipkit service-ips { 10.96.0.1 . tcp . 80 }",
			`add element ip vipkit service-ips { 10.96.0.1 . tcp . 80 comment "ns1/a:web" : goto row-cCC }`,
		}
		if !slices.Equal(r.written(), want) {
			t.Errorf("wrote %q, want %q", r.written(), want)
		}
	})
	t.Run("#18 #78 both sides of a move succeed or fail together", func(t *testing.T) {
		r.refuse = refuseIf(`"ns1/b:`)
		in := with(app{name: "a", gone: true}, app{name: "b", vip: "10.96.0.1", eps: two}, app{name: "c", vip: "10.96.0.2", eps: two})
		if got := failed(t, w.try(b, in)); !slices.Equal(got, []string{"a/IPv4", "b/IPv4"}) {
			t.Errorf("failed %v, want a and b", got)
		}
		r.refuse = nil
		if s := w.sync(b, plan.Input{}); s.Changes != 2 || s.Full {
			t.Errorf("then changed %d ports, full %v; want 2, not full", s.Changes, s.Full)
		}
	})
}

// TestSyncCost counts statements at 10,000 Services with ten endpoints each.
func TestSyncCost(t *testing.T) {
	const services = 10_000
	b, r := inNowhere(t, Options{})
	w := newWorld(t, nodeConfig())
	w.sync(b, many(services))
	if per := objects(r.texts); per > 4000 {
		t.Errorf("the first sync made %d chains, sets and maps for %d Services", per, services)
	}
	change := func(set *endpoints.Set) int {
		s := w.sync(b, plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{nameOf("svc77"): set}})
		if s.Full || s.Commits > 1 {
			t.Errorf("stats %+v, want one transaction on what is known", s)
		}
		return s.Written
	}
	tests := []struct {
		name string
		set  *endpoints.Set
		most int
	}{
		{"E32 one endpoint removed", tenOf(77, 9, "n2"), 8},
		{"one endpoint added", tenOf(77, 10, "n2"), 8},
		{"#66 one endpoint replaced", replaced(77), 4},
		{"all on this node", tenOf(77, 10, "n1"), 12},
		{"nothing", tenOf(77, 10, "n1"), 0},
	}
	for _, tt := range tests {
		r.clear()
		if got := change(tt.set); got > tt.most {
			t.Errorf("%s: %d statements, want at most %d:\n%s", tt.name, got, tt.most, strings.Join(r.texts, ""))
		}
		if n := objects(r.texts); n != 0 {
			t.Errorf("%s: made %d chains, sets or maps", tt.name, n)
		}
	}
}

// replaced returns the ten endpoints of a Service with another in the place of the third.
func replaced(i int) *endpoints.Set {
	lists := maps.Collect(tenOf(i, 10, "n2").All())
	in := make(map[endpoints.Key][]endpoints.Endpoint)
	for k, eps := range lists {
		for j, e := range eps {
			if j == 3 {
				in[k] = append(in[k], endpoints.Endpoint{Addr: addrPort("10.250.0.1:8080"), Ready: true, Serving: true, NodeName: "n2", Weight: 1})
				continue
			}
			in[k] = append(in[k], *e)
		}
	}
	return endpoints.NewSet(in)
}

// objects counts the chains, sets and maps that were made.
func objects(texts []string) (n int) {
	for line := range strings.Lines(strings.Join(texts, "")) {
		if words := strings.Fields(line); words[0] == "add" && slices.Contains([]string{"chain", "set", "map"}, words[1]) {
			n++
		}
	}
	return n
}
