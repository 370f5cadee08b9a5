package main

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	"github.com/vipkit/vipkit/backends/engine"
	"github.com/vipkit/vipkit/proxy/plan"
)

type (
	object = engine.Object[Match, Flow]
	edit   = engine.Edit[Match, Flow]
)

// A Backend keeps the flows of a Switch equal to a plan. The engine has all that backends have in common, so
// what is left is how a Service port looks in the Switch, how to list it, and how to write it.
type Backend struct {
	*engine.Engine[Match, Flow]

	Switch *Switch
}

// NewBackend returns a Backend. The Switch is its alone.
func NewBackend(s *Switch) *Backend {
	return &Backend{engine.New(dialect{s}, engine.Options{Name: "custombackend"}), s}
}

// A dialect is what the engine asks for.
type dialect struct{ s *Switch }

// Compile returns the flows of a Service port. There is no policy here: the plan says for every
// origin of a packet what happens to it.
func (dialect) Compile(p *plan.Plan, port *plan.Port, _ []object) ([]object, error) {
	if port == nil { // what belongs to no port: the node
		return []object{{Value: Flow{Node: p}}}, nil
	}
	var out []object
	for _, fe := range port.Frontends {
		out = append(out, object{ID: Match{fe.Addr, port.Family, port.Protocol, fe.Port}, Value: Flow{Port: port, Frontend: fe}})
		if fe.Kind == plan.ClusterIP { // its other ports refuse, whichever port of the Service comes or goes
			out = append(out, object{ID: Match{Addr: fe.Addr, Family: port.Family}, Shared: true})
		}
	}
	return out, nil
}

// Equal reports whether nothing needs to be written. A port that did not change is the same pointer in the next plan.
func (dialect) Equal(a, b Flow) bool {
	return a.Port == b.Port && (a.Node == b.Node || reflect.DeepEqual(a.Node.Config(), b.Node.Config()))
}

// List yields what is in the Switch, also what another process put there.
func (d dialect) List(context.Context) (iter.Seq2[Match, Flow], error) { return d.s.Flows() }

// Write adds first and removes then. A flow with its endpoints is one write: nobody meets half of it. The Switch
// has no transactions, so a flow that it refuses leaves those before it; the engine reverses these and finds out whose it was.
func (d dialect) Write(_ context.Context, edits []edit) error {
	for _, x := range edits {
		if x.New == nil {
			continue
		}
		if err := d.s.Put(x.ID, *x.New); err != nil {
			return fmt.Errorf("put %v: %w, %w: %w", x.ID, engine.ErrRefused, engine.ErrHalfway, err)
		}
	}
	for _, x := range edits {
		if x.New != nil {
			continue
		}
		if err := d.s.Delete(x.ID); err != nil {
			return fmt.Errorf("delete %v: %w", x.ID, err)
		}
	}
	return nil
}
