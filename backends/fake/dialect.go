package fake

import (
	"context"
	"fmt"
	"iter"
	"maps"

	"github.com/vipkit/vipkit/backends/engine"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A dialect writes ports as they are: one object for each.
type dialect struct{ b *Backend }

func (dialect) Compile(_ *plan.Plan, port *plan.Port, _ []engine.Object[plan.Key, *plan.Port]) ([]engine.Object[plan.Key, *plan.Port], error) {
	if port == nil {
		return nil, nil // a plan has the configuration
	}
	return []engine.Object[plan.Key, *plan.Port]{{ID: port.Key, Value: port}}, nil
}

func (dialect) Equal(a, b *plan.Port) bool { return a == b }

func (d dialect) List(context.Context) (iter.Seq2[plan.Key, *plan.Port], error) {
	d.b.mu.Lock()
	defer d.b.mu.Unlock()
	return maps.All(maps.Clone(d.b.table)), d.b.faults.read
}

// Write writes port by port. A port that is to fail is refused before anything is written.
func (d dialect) Write(_ context.Context, edits []engine.Edit[plan.Key, *plan.Port]) error {
	b := d.b
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, x := range edits {
		if err := b.faults.ports[x.ID]; err != nil {
			return fmt.Errorf("%w: %w", engine.ErrRefused, err)
		}
	}
	b.view = nil
	for _, x := range edits {
		if err := b.faults.write(); err != nil {
			return err
		}
		b.put(x)
	}
	return nil
}

func (b *Backend) put(x engine.Edit[plan.Key, *plan.Port]) {
	if b.table == nil {
		b.table = make(map[plan.Key]*plan.Port)
	}
	delete(b.table, x.ID)
	if x.New != nil {
		b.table[x.ID] = *x.New
	}
}
