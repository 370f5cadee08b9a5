package plan_test

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// A consumer that has nothing to do while a new port is held is still told of it
// once it is let go.
func TestCursorHeldWithNothingToDo(t *testing.T) {
	name := types.NamespacedName{Namespace: "ns1", Name: "web"}
	k := plan.Key{PortName: service.PortName{NamespacedName: name, Protocol: corev1.ProtocolTCP}, Family: corev1.IPv4Protocol}
	empty := plan.New(plan.Config{})
	var c plan.Cursor
	c.Done(c.Delta(empty), nil)

	next, diff := empty.Update(plan.Input{Services: map[types.NamespacedName]*service.Service{name: {
		Name:  name,
		Ports: []service.Port{{Protocol: corev1.ProtocolTCP, Port: 80}},
		IPv4:  service.Addresses{ClusterIP: netip.MustParseAddr("10.96.0.1")},
	}}})
	c.Note(diff)
	for range 2 {
		if d := c.Delta(next.Hold(map[plan.Key]*plan.Port{k: nil})); d != nil {
			t.Fatalf("Delta while held = %+v, want nil", d.Changes)
		}
	}
	d := c.Delta(next)
	if d == nil || len(d.Changes) != 1 || d.Changes[0].After != next.Port(k) {
		t.Errorf("Delta after = %+v, want the new port", d)
	}
}
