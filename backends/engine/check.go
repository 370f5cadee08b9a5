package engine

import (
	"context"
	"fmt"

	"github.com/vipkit/vipkit/proxy/plan"
)

// mostNamed is how many objects Check names.
const mostNamed = 10

// Check lists what is in the data plane and compiles everything, and names at most ten objects that are not what the last Sync
// left. While that is unknown, because the last Sync failed or there was none, it names nothing.
func (e *Engine[ID, V]) Check(ctx context.Context) (changed []string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.known {
		return nil, nil
	}
	list, err := e.dialect.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: check: list: %w", e.opts.Name, err)
	}
	want, err := e.wanted()
	if err != nil {
		return nil, fmt.Errorf("%s: check: %w", e.opts.Name, err)
	}
	name := func(what string, id ID) {
		if len(changed) < mostNamed {
			changed = append(changed, fmt.Sprintf("%v %s", id, what))
		}
	}
	for id, have := range list {
		v, ok := want[id]
		delete(want, id)
		switch {
		case !ok:
			name("was added", id)
		case !e.dialect.Equal(have, *v):
			name("was changed", id)
		}
	}
	for id := range want {
		name("is missing", id)
	}
	return changed, nil
}

// wanted returns all that should be in the data plane.
func (e *Engine[ID, V]) wanted() (map[ID]*V, error) {
	want := make(map[ID]*V)
	r := &round[ID, V]{e: e}
	add := func(k plan.Key) error {
		s, err := r.inPlace(k)
		if err != nil {
			return fmt.Errorf("compile what is in place of %s: %w", k, err)
		}
		for i := range s.objects {
			if id := s.objects[i].ID; want[id] == nil {
				want[id] = &s.objects[i].Value
			}
		}
		return nil
	}
	if err := add(plan.Key{}); err != nil {
		return nil, err
	}
	for port := range e.base.All() {
		if err := add(port.Key); err != nil {
			return nil, err
		}
	}
	for id, v := range e.strays {
		want[id] = &v
	}
	for id := range e.claims {
		want[id] = e.claims.winner(id)
	}
	return want, nil
}
