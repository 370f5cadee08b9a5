package plan_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

// seeds gives a fuzz target inputs that make some tens of events each.
func seeds(f *testing.F) {
	f.Helper()
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 7))
		data := make([]byte, 600)
		for i := range data {
			data[i] = byte(r.Uint32())
		}
		f.Add(data)
	}
}

// FuzzEventOrder replays events one by one, in batches, and what is left of them
// at once and in any order: all Plans must be equal, byte by byte.
func FuzzEventOrder(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		order := rand.New(rand.NewPCG(uint64(d.roll(256)), uint64(d.roll(256))))
		oneByOne, batched := plan.New(config()), plan.New(config())
		var all, batch plan.Input
		for !d.done() {
			e := d.event()
			all, batch = merge(all, e), merge(batch, e)
			next, diff := oneByOne.Update(e)
			checkDiff(t, oneByOne, next, diff)
			oneByOne = next
			if order.IntN(4) == 0 {
				batched, _ = batched.Update(batch)
				batch = plan.Input{}
			}
		}
		batched, _ = batched.Update(batch)
		cold, _ := plan.New(config()).Update(all)
		shuffled := plan.New(config())
		left := split(all)
		order.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
		for _, e := range left {
			shuffled, _ = shuffled.Update(e)
		}
		checkSame(t, "one by one", oneByOne, cold)
		checkSame(t, "in batches", batched, cold)
		checkSame(t, "in another order", shuffled, cold)
		checkPlan(t, cold, all)
		checkPlan(t, oneByOne, all)
	})
}

func checkSame(t *testing.T, name string, got, want *plan.Plan) {
	t.Helper()
	if g, w := got.String(), want.String(); g != w {
		t.Fatalf("plan made %s:\n%s\nwant\n%s", name, g, w)
	}
	for p := range want.All() {
		if !plan.EqualPorts(got.Port(p.Key), p) {
			t.Fatalf("%s made %s differs", p.PortName, name)
		}
	}
}

// checkDiff looks whether a Diff names every port that differs and no other, and
// whether the others are the same pointer.
func checkDiff(t *testing.T, before, after *plan.Plan, d plan.Diff) {
	t.Helper()
	if !slices.IsSortedFunc(d.Ports, plan.Key.Compare) || len(slices.Compact(slices.Clone(d.Ports))) != len(d.Ports) {
		t.Fatalf("ports of the diff are not sorted or not single: %v", d.Ports)
	}
	for _, p := range []*plan.Plan{before, after} {
		for port := range p.All() {
			a, b := before.Port(port.Key), after.Port(port.Key)
			_, named := slices.BinarySearchFunc(d.Ports, port.Key, plan.Key.Compare)
			if (a != b) != named || plan.EqualPorts(a, b) == named {
				t.Fatalf("%v: named %t, same pointer %t, equal %t", port.Key, named, a == b, plan.EqualPorts(a, b))
			}
		}
	}
}

// checkPlan looks for what holds in every Plan.
func checkPlan(t *testing.T, p *plan.Plan, in plan.Input) {
	t.Helper()
	checkOneOwner(t, p)
	n := 0
	for port := range p.All() {
		n++
		checkPort(t, port, in.Endpoints[port.NamespacedName])
		for _, f := range port.Frontends {
			if f.Kind == plan.ClusterIP && !p.IsClusterIP(f.Addr) {
				t.Errorf("%s is no ClusterIP", f.Addr)
			}
		}
	}
	if n != p.Len() {
		t.Errorf("Len is %d, All yields %d", p.Len(), n)
	}
	for _, c := range p.Conflicts() {
		if c.Owner.NamespacedName == c.Loser.NamespacedName {
			t.Errorf("conflict within one Service: %s", c)
		}
	}
	for _, source := range []string{"P", "H", "X"} {
		for _, dst := range []string{"10.96.0.1:80", "10.96.0.3:81", "10.96.0.99:80", "[fd00:96::2]:80", "192.168.0.2:30000", "[2001:db8::2]:60000"} {
			checkTrace(t, p.Trace(packet(source, dst)))
		}
	}
}

func checkPort(t *testing.T, port *plan.Port, set *endpoints.Set) {
	t.Helper()
	known := set.Get(endpoints.Key{Port: port.Port, Protocol: port.Protocol, Family: port.Family})
	for _, list := range [][]*endpoints.Endpoint{port.Cluster, port.Local, port.Reachable, port.Serving} {
		if !slices.IsSortedFunc(list, endpoints.Compare) {
			t.Errorf("endpoints of %s are not sorted: %v", port.PortName, list)
		}
		for _, e := range list {
			if !slices.ContainsFunc(known, func(k *endpoints.Endpoint) bool { return endpoints.Equal(k, e) }) {
				t.Errorf("%s has the unknown endpoint %s", port.PortName, e)
			}
		}
	}
	for i := range port.Frontends {
		f := &port.Frontends[i]
		for o, a := range f.Actions {
			if (a.Verdict == plan.Forward) != (len(port.Endpoints(a.Pool)) > 0) || a.Masquerade && a.Verdict != plan.Forward {
				t.Errorf("%s of %s from %s: %s with %d endpoints", f, port.PortName, plan.Origin(o), a, len(port.Endpoints(a.Pool)))
			}
		}
	}
}

func checkTrace(t *testing.T, tr plan.Trace) {
	t.Helper()
	switch {
	case tr.Reason == "":
		t.Errorf("no reason for %s of %v", tr.Verdict, tr.Packet)
	case (tr.Verdict == plan.Forward) != (len(tr.Endpoints) > 0):
		t.Errorf("%s of %v to %d endpoints", tr.Verdict, tr.Packet, len(tr.Endpoints))
	case (tr.Port == nil) != (tr.Frontend == nil), tr.Verdict == plan.Pass && tr.Port != nil:
		t.Errorf("%s of %v with port %v and frontend %v", tr.Verdict, tr.Packet, tr.Port, tr.Frontend)
	}
}
