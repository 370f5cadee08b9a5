package plan_test

import (
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
)

// TestNil asks what is not there: a nil Plan is one without anything, and nil ports have nothing.
func TestNil(t *testing.T) {
	var p *plan.Plan
	full := build(config(), svc(), eps("a R"))
	port := full.Port(key("ns1/svc1:p80", v4))
	e := port.Cluster[0]
	if p.EndsOnNode(packet("X", "10.96.0.10:80"), e) || full.EndsOnNode(packet("X", "10.96.0.10:80"), nil) {
		t.Error("a packet ends on no node")
	}
	if len(p.Problems()) > 0 || p.Len() != 0 || p.String() != plan.New(plan.Config{}).String() {
		t.Errorf("a nil Plan prints as\n%s, with problems %v", p, p.Problems())
	}
	if held := p.Hold(map[plan.Key]*plan.Port{port.Key: port}); held.Port(port.Key) != port {
		t.Error("a nil Plan holds no port")
	}
	var none *plan.Port
	if none.Endpoints(plan.ClusterPool) != nil || none.HasEndpointAt(&port.Frontends[0]) || port.HasEndpointAt(nil) {
		t.Error("what is not there has endpoints")
	}
	var frontend *plan.Frontend
	if got := frontend.String(); got != "<nil>" {
		t.Errorf("a nil Frontend prints as %q", got)
	}
	var c plan.Cursor
	if c.Done(nil, nil); c.Delta(full) == nil {
		t.Error("Done without a Delta acknowledged something")
	}
}

func TestEndpointsOfPools(t *testing.T) {
	p := build(config(), svc(policies("C/L/yes")), eps("a R loc", "b R")).Port(key("ns1/svc1:p80", v4))
	for pool, want := range map[plan.Pool]string{plan.NoPool: "", plan.ClusterPool: "a b", plan.LocalPool: "a"} {
		if got := letters(p.Endpoints(pool)); got != want {
			t.Errorf("pool %s is %q, want %q", pool, got, want)
		}
	}
}
