package plan_test

import (
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
)

func TestHold(t *testing.T) {
	ka, kb, kn := key("ns1/a:p80", v4), key("ns1/b:p80", v4), key("ns1/new:p80", v4)
	shared := externalIP("5.5.5.5")
	before := build(config(), rival(1, "a", shared), eps("a R"), rival(2, "b"), eps("b R"))
	tests := []struct {
		name string
		in   plan.Input
		held []plan.Key
		want map[string]string
	}{
		{"a change of endpoints", set("a", "c R"), []plan.Key{ka}, map[string]string{"P 10.96.0.101:80": "a", "P 10.96.0.102:80": "b"}},
		{"a removed port", only("ns1/a", nil), []plan.Key{ka}, map[string]string{"P 10.96.0.101:80": "a", "X 5.5.5.5:80": "a masq"}},
		{"a new port", input(rival(3, "new"), eps("c R")), []plan.Key{kn}, map[string]string{"P 10.96.0.103:80": "pass", "P 10.96.0.101:80": "a"}},
		{"another address", only("ns1/b", rival(9, "b")), []plan.Key{kb}, map[string]string{"P 10.96.0.102:80": "b", "P 10.96.0.109:80": "pass"}},
		{"a removed ClusterIP stays one", only("ns1/b", nil), []plan.Key{kb}, map[string]string{"P 10.96.0.102:81": "reject"}},
		{"a new ClusterIP is none yet", input(rival(3, "new")), []plan.Key{kn}, map[string]string{"P 10.96.0.103:81": "pass"}},
		{
			"an address that another port took stays there", input(rival(1, "a"), rival(2, "b", shared)),
			[]plan.Key{ka},
			map[string]string{"P 10.96.0.101:80": "a", "X 5.5.5.5:80": "b masq"},
		},
		{
			"an address that a new version took and lost again", input(rival(1, "a"), rival(2, "b", shared)),
			[]plan.Key{kb},
			map[string]string{"X 5.5.5.5:80": "pass", "P 10.96.0.102:80": "b"},
		},
		{
			"both sides of a move", input(rival(1, "a"), rival(2, "b", shared)),
			[]plan.Key{ka, kb},
			map[string]string{"X 5.5.5.5:80": "a masq", "P 10.96.0.102:80": "b"},
		},
		{"a port whose only address was taken is gone", input(rival(9, "a"), rival(1, "b")), []plan.Key{ka}, map[string]string{"P 10.96.0.101:80": "b", "P 10.96.0.109:80": "pass"}},
		{"nothing that exists", plan.Input{}, []plan.Key{kn}, map[string]string{"P 10.96.0.101:80": "a"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, _ := before.Update(tt.in)
			ports := map[plan.Key]*plan.Port{}
			for _, k := range tt.held {
				ports[k] = before.Port(k)
			}
			text := p.String()
			held := p.Hold(ports)
			checkPackets(t, held, tt.want)
			checkOneOwner(t, held)
			n := 0
			for range held.All() {
				n++
			}
			if n != held.Len() {
				t.Errorf("Len is %d, All yields %d", held.Len(), n)
			}
			if p.String() != text {
				t.Error("Hold changed the plan that it was called on")
			}
			if back, d := held.Update(plan.Input{}); back.String() != text || len(d.Ports) != 0 {
				t.Error("Update of a held plan does not go on from the plan under it")
			}
		})
	}
	if before.Hold(nil) != before {
		t.Error("holding nothing is another plan")
	}
}

func TestHoldTwice(t *testing.T) {
	before := build(config(), rival(1, "a"), eps("a R"), rival(2, "b"), eps("b R"))
	p, _ := before.Update(set("a", "c R"))
	p, _ = p.Update(set("b", "d R"))
	ka, kb := key("ns1/a:p80", v4), key("ns1/b:p80", v4)
	held := p.Hold(map[plan.Key]*plan.Port{ka: before.Port(ka)}).Hold(map[plan.Key]*plan.Port{kb: before.Port(kb)})
	checkPackets(t, held, map[string]string{"P 10.96.0.101:80": "a", "P 10.96.0.102:80": "b"})
}

// TestCursorFollowsHeldPorts plays two consumers: the second is shown what the
// first could not do as it was.
func TestCursorFollowsHeldPorts(t *testing.T) {
	first := synced(t)
	var second plan.Cursor
	second.Done(second.Delta(first.p), nil)

	p, diff := first.p.Update(set("a", "c R"))
	first.Note(diff)
	second.Note(diff)
	first.Done(first.Delta(p), failed("a"))
	if got := show(second.Delta(p.Hold(first.Failed()))); got != "nothing" {
		t.Errorf("second consumer is told %q, want nothing", got)
	}

	p, diff = p.Update(set("b", "d R"))
	first.Note(diff)
	second.Note(diff)
	first.Done(first.Delta(p), failed("a"))
	d := second.Delta(p.Hold(first.Failed()))
	if got := show(d); got != "b[b>d]" {
		t.Errorf("second consumer is told %q, want b alone", got)
	}
	second.Done(d, nil)

	first.Done(first.Delta(p), nil)
	if got := show(second.Delta(p.Hold(first.Failed()))); got != "a[a>c]" {
		t.Errorf("second consumer is told %q, want a at last", got)
	}
}
