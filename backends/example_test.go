package backends_test

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// A printer is a backend whose data plane is the standard output. It remembers
// nothing, so it prints all of a Full Delta and only the changes of any other.
type printer struct{}

var _ backends.Backend = printer{}

func (printer) Sync(_ context.Context, d *plan.Delta) error {
	for _, c := range d.Changes {
		if c.After == nil {
			fmt.Println("-", c.Key)
			continue
		}
		for _, f := range c.After.Frontends {
			outside := f.Actions[plan.FromOutside]
			fmt.Println("+", c.Key, netip.AddrPortFrom(f.Addr, f.Port), "reject:", outside.Verdict == plan.Reject)
		}
	}
	return nil
}

func (printer) Cleanup(context.Context) error { return nil }

func ExampleBackend() {
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	first, diff := plan.New(plan.Config{}).Update(plan.Input{Services: map[types.NamespacedName]*service.Service{web: {
		Name:  web,
		Ports: []service.Port{{Protocol: corev1.ProtocolTCP, Port: 80}},
		IPv4:  service.Addresses{ClusterIP: netip.MustParseAddr("10.96.0.10")},
	}}})
	var cursor plan.Cursor
	cursor.Note(diff)
	sync(&cursor, first)

	second, diff := first.Update(plan.Input{Services: map[types.NamespacedName]*service.Service{web: nil}})
	cursor.Note(diff)
	sync(&cursor, second)
	// Output:
	// + default/web 10.96.0.10:80 reject: true
	// - default/web
}

// sync is what package proxy does in each round.
func sync(c *plan.Cursor, p *plan.Plan) {
	if d := c.Delta(p); d != nil {
		c.Done(d, printer{}.Sync(context.Background(), d))
	}
}
