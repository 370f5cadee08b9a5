package ipvs_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A heldWorld has a port, that of Service a, of which versions that fails brings cannot be written.
type heldWorld struct {
	*world
}

func newHeldWorld(t *testing.T) *heldWorld {
	t.Helper()
	return &heldWorld{newWorld(t, ipvs.Options{PerPort: func(p *plan.Port) ipvs.Balance {
		scheduler, _ := p.Ext.(string)
		return ipvs.Balance{Scheduler: scheduler}
	}})}
}

// fails brings a change of which the port of Service a cannot be written.
func (h *heldWorld) fails(in plan.Input) {
	h.t.Helper()
	if a := in.Services[nameOf("a")]; a != nil {
		a.Ext = "nosuch"
	}
	if err := h.try(in); err == nil {
		h.t.Fatal("the kernel has no such scheduler, and Sync is nil")
	}
}

func (h *heldWorld) repaired(in plan.Input) {
	h.t.Helper()
	h.sync(in)
}

func TestHeldPortYieldsItsSites(t *testing.T) {
	const shared = "198.51.100.9"
	withIt, withoutIt := app{name: "a", vip: "10.96.0.10", eps: here, change: external(shared)}, app{name: "a", vip: "10.96.0.10", eps: here}
	b := app{name: "b", vip: "10.96.0.11", eps: there}
	bWithIt := app{name: "b", vip: "10.96.0.11", eps: there, change: external(shared)}
	servers := func(a, b, shared string) map[string]string {
		out := map[string]string{"TCP 10.96.0.10:80": "rr " + a, "TCP 10.96.0.11:80": "rr " + b}
		if shared != "" {
			out["TCP 198.51.100.9:80"] = "rr " + shared
		}
		return out
	}
	const inA, inB = "10.180.0.1:8080", "10.180.1.1:8080"
	moved := servers(inA, inB, inB)

	t.Run("fault F05 the new owner keeps the site when the old one is repaired", func(t *testing.T) {
		w := newHeldWorld(t)
		w.sync(with(withIt, b))
		w.fails(with(withoutIt, bWithIt))
		w.wantServers(moved)
		w.repaired(with(app{name: "a", vip: "10.96.0.10", eps: both}))
		w.wantServers(servers(inA+" "+inB, inB, inB))
		w.wantBound("10.96.0.10", "10.96.0.11", shared)
		w.wantBox("frontends-4", "10.96.0.10 . tcp . 80", "10.96.0.11 . tcp . 80", shared+" . tcp . 80")
	})
	t.Run("fault F05 what stays as it was keeps all of its elements, also in a full Sync", func(t *testing.T) {
		w := newHeldWorld(t)
		w.sync(with(app{name: "a", vip: "10.96.0.10", eps: here, change: local(external(shared))}, b))
		before := w.state()
		w.fails(with(app{name: "a", vip: "10.96.0.10", eps: both, change: external(shared)}))
		for range 2 {
			if diff := cmp.Diff(before, w.state()); diff != "" {
				t.Errorf("after a port could not be written (-before +after):\n%s", diff)
			}
			w.cursor.Reset()
			w.fails(plan.Input{})
		}
	})
	t.Run("fault F05 in a full Sync of the same process", func(t *testing.T) {
		w := newHeldWorld(t)
		w.sync(with(withIt, b))
		w.cursor.Reset()
		w.fails(with(withoutIt, bWithIt))
		w.wantServers(moved)
		w.repaired(with(withoutIt))
		w.wantServers(moved)
	})
	t.Run("fault F05 the new owner goes and what is left of the old one serves again", func(t *testing.T) {
		w := newHeldWorld(t)
		w.sync(with(withIt, b))
		w.fails(with(withoutIt, bWithIt))
		w.fails(with(b))
		w.wantServers(servers(inA, inB, inA))
		w.repaired(with(withoutIt))
		w.wantServers(servers(inA, inB, ""))
	})
	t.Run("fault F05 the site comes back to a port that is still broken", func(t *testing.T) {
		w := newHeldWorld(t)
		w.sync(with(withIt, b))
		w.fails(with(withoutIt, bWithIt))
		w.fails(with(withIt, b))
		w.wantServers(servers(inA, inB, inA))
		w.repaired(with(withIt))
		w.wantServers(servers(inA, inB, inA))
	})
	t.Run("fault F05 the broken port is deleted", func(t *testing.T) {
		w := newHeldWorld(t)
		w.sync(with(withIt, b))
		w.fails(with(withoutIt, bWithIt))
		n := nameOf("a")
		in := with()
		in.Services[n], in.Endpoints[n] = nil, nil
		w.repaired(in)
		w.wantServers(map[string]string{"TCP 10.96.0.11:80": "rr " + inB, "TCP 198.51.100.9:80": "rr " + inB})
	})
	t.Run("fault F05 a mark stays with the pool that has it", func(t *testing.T) {
		w := newHeldWorld(t)
		localA := app{name: "a", vip: "10.96.0.10", eps: both, change: local(external(shared))}
		localB := app{name: "b", vip: "10.96.0.11", eps: there, change: local(external(shared))}
		w.sync(with(localA, b))
		mark := w.box("pool-pod-4")
		w.cursor.Reset()
		w.fails(with(withoutIt, localB))
		if got := w.box("pool-pod-4"); len(got) != 1 || len(mark) != 1 || got[0] == mark[0] {
			t.Errorf("marks of pods: %q, before the move %q: want another one, since the old one has the endpoints of a", got, mark)
		}
		w.repaired(with(withoutIt))
		want := moved
		want["TCP 198.51.100.9:80"], want["mark IPv4"] = "rr", "rr "+inB
		w.wantServers(want)
	})
}
