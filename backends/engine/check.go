package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy/plan"
)

// Check lists what is in the data plane and compiles everything, and names at most [backends.MostChanged] objects that are
// not what the last Sync left. While that is unknown, because the last Sync failed or there was none, it names nothing.
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
		if len(changed) < backends.MostChanged {
			changed = append(changed, bounded(fmt.Sprintf("%s %v", what, id)))
		}
	}
	for id, have := range list {
		v, ok := want[id]
		delete(want, id)
		switch {
		case !ok:
			name("added:", id)
		case !e.dialect.Equal(have, *v):
			name("changed:", id)
		}
	}
	for id := range want {
		name("missing:", id)
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

// bounded cuts off what is too long for [backends.Checker]: an ID may be any value.
func bounded(text string) string {
	if len(text) <= backends.MostChangedText {
		return text
	}
	return strings.ToValidUTF8(text[:backends.MostChangedText], "")
}
