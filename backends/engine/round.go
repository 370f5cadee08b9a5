package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A round is one Sync at work.
type round[ID comparable, V any] struct {
	e *Engine[ID, V]

	delta *plan.Delta
	steps []*step[ID, V]
	bad   map[plan.Key]error
	stats backends.Stats
}

// A step is a port on its way from one version to another.
type step[ID comparable, V any] struct {
	from, to stage[ID, V]
}

// A stage is a version of a port, or of what belongs to no port.
type stage[ID comparable, V any] struct {
	port    *plan.Port // nil if there is none
	objects []Object[ID, V]
	held    bool
}

func (s *step[ID, V]) key() plan.Key {
	if s.to.port != nil {
		return s.to.port.Key
	}
	return keyOf(s.from.port)
}

func (s *step[ID, V]) size() int { return len(s.from.objects) + len(s.to.objects) }

// sync goes from what is in place to the new plan.
func (r *round[ID, V]) sync(ctx context.Context) error {
	d := r.delta
	r.stats.Full = d.Full || !r.e.known || d.Base != r.e.base
	keys, err := r.keys(ctx)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if err := r.prepare(k); err != nil {
			return err
		}
	}
	if r.stats.Full {
		r.e.claims = make(claims[ID, V])
		maps.DeleteFunc(r.e.kept, func(k plan.Key, _ []Object[ID, V]) bool { return d.New.Port(k) == nil })
	}
	if err := r.writeAll(ctx); err != nil {
		return err
	}
	return r.sweep(ctx)
}

// keys returns the keys of the ports to look at, sorted. The empty one is that of what belongs to no port.
func (r *round[ID, V]) keys(ctx context.Context) ([]plan.Key, error) {
	d := r.delta
	keys := make([]plan.Key, 0, len(d.Changes))
	switch {
	case r.stats.Full:
		list, err := r.e.dialect.List(ctx)
		if err != nil {
			return nil, fmt.Errorf("list: %w", err)
		}
		r.e.strays = maps.Collect(list)
		keys = append(keys, plan.Key{})
		for port := range d.New.All() {
			keys = append(keys, port.Key)
		}
		keys = slices.AppendSeq(keys, maps.Keys(r.e.held))
	case d.Config:
		keys = append(keys, plan.Key{})
		for _, p := range []*plan.Plan{d.New, r.e.base} {
			for port := range p.All() {
				keys = append(keys, port.Key)
			}
		}
		keys = slices.AppendSeq(keys, maps.Keys(r.e.held))
	}
	for _, c := range d.Changes {
		keys = append(keys, c.Key)
	}
	if !slices.IsSortedFunc(keys, plan.Key.Compare) {
		slices.SortFunc(keys, plan.Key.Compare)
	}
	return slices.Compact(keys), nil
}

// prepare adds the step of a port.
func (r *round[ID, V]) prepare(k plan.Key) error {
	s := &step[ID, V]{}
	before, err := r.inPlace(k)
	if err != nil && !r.stats.Full {
		return fmt.Errorf("compile what is in place of %s: %w", k, err)
	}
	switch {
	case !r.stats.Full:
		s.from = before
	case r.delta.New.Port(k) == nil && k != (plan.Key{}):
		// So that the port can be named if it cannot be removed.
		s.from = r.listed(k, stage[ID, V]{port: before.port})
	}
	s.to, err = r.compile(k, before)
	switch {
	case err == nil:
	case k == (plan.Key{}):
		return fmt.Errorf("compile the node: %w", err)
	default:
		r.bad[k] = err
		s.to = r.hold(before, stage[ID, V]{port: r.delta.New.Port(k)})
	}
	if len(s.from.objects) > 0 || len(s.to.objects) > 0 || s.from.held || s.to.held {
		r.steps = append(r.steps, s)
		return nil
	}
	delete(r.e.held, k)
	return nil
}

// listed returns what was listed of a port: of the objects that it may have in place by all that is known, or, if nothing
// is known because an earlier process wrote it, of those that it shall have.
func (r *round[ID, V]) listed(k plan.Key, after stage[ID, V]) stage[ID, V] {
	s := stage[ID, V]{port: after.port}
	before, _ := r.inPlace(k) // what cannot be compiled any more names no objects
	objects := before.objects
	var versions []*plan.Port
	if i, ok := slices.BinarySearchFunc(r.delta.Changes, k, func(c plan.Change, k plan.Key) int { return c.Key.Compare(k) }); ok {
		versions = r.delta.Changes[i].Before
	}
	for _, port := range versions {
		s.port = cmp.Or(s.port, port)
		if more, err := r.e.dialect.Compile(r.delta.New, port, nil); err == nil {
			objects = slices.Concat(objects, more)
		}
	}
	if r.e.base == nil && len(versions) == 0 {
		objects = after.objects
	}
	for _, o := range objects {
		if v, ok := r.e.strays[o.ID]; ok {
			o.Value = v
			s.objects = append(s.objects, o)
		}
	}
	return s
}

// inPlace returns what is in place of a port, as far as is remembered.
func (r *round[ID, V]) inPlace(k plan.Key) (stage[ID, V], error) {
	if v, ok := r.e.held[k]; ok {
		return stage[ID, V]{v.port, v.objects, true}, nil
	}
	s := stage[ID, V]{port: r.e.base.Port(k)}
	if r.e.base == nil || s.port == nil && k != (plan.Key{}) {
		return s, nil
	}
	if objects, ok := r.e.kept[k]; ok {
		s.objects = objects
		return s, nil
	}
	var err error
	s.objects, err = r.e.dialect.Compile(r.e.base, s.port, nil)
	return s, err
}

// compile returns what a port shall be.
func (r *round[ID, V]) compile(k plan.Key, before stage[ID, V]) (stage[ID, V], error) {
	p := r.delta.New
	s := stage[ID, V]{port: p.Port(k)}
	if s.port == nil && k != (plan.Key{}) {
		return s, nil
	}
	var prev []Object[ID, V]
	if r.remembers(s.port) {
		prev = before.objects
	}
	var err error
	s.objects, err = r.e.dialect.Compile(p, s.port, prev)
	return s, err
}

func (r *round[ID, V]) remembers(p *plan.Port) bool {
	return p != nil && r.e.opts.Remember != nil && r.e.opts.Remember(p)
}

// hold returns a port as it is in place, to stay so.
func (r *round[ID, V]) hold(before, after stage[ID, V]) stage[ID, V] {
	s := before
	if s.port == nil {
		s.port = after.port
	}
	if r.stats.Full {
		s = r.listed(s.port.Key, stage[ID, V]{port: s.port, objects: after.objects})
	}
	s.held = true
	return s
}

func (e *Engine[ID, V]) pieceSize() int {
	if e.opts.PieceSize <= 0 {
		return math.MaxInt
	}
	return e.opts.PieceSize
}

// writeAll writes all steps, and with them what nobody wants any more. If that is too much or is refused, it goes group by group.
func (r *round[ID, V]) writeAll(ctx context.Context) error {
	size := len(r.e.strays)
	for _, s := range r.steps {
		size += s.size()
	}
	if size <= r.e.pieceSize() {
		err := r.try(ctx, r.steps, r.stats.Full)
		if !errors.Is(err, ErrRefused) {
			return err
		}
	}
	return r.write(ctx, r.groups())
}

// write writes groups, and halves them for as long as they are too many or some are refused.
func (r *round[ID, V]) write(ctx context.Context, groups [][]*step[ID, V]) error {
	if len(groups) == 0 {
		return nil
	}
	all := slices.Concat(groups...)
	size := 0
	for _, s := range all {
		size += s.size()
	}
	if len(groups) == 1 || size <= r.e.pieceSize() {
		err := r.try(ctx, all, false)
		switch {
		case !errors.Is(err, ErrRefused):
			return err
		case len(groups) == 1:
			return r.divide(ctx, groups[0], err)
		}
	}
	half := len(groups) / 2
	if err := r.write(ctx, groups[:half]); err != nil {
		return err
	}
	return r.write(ctx, groups[half:])
}

// divide goes on with a group that was refused as a whole: all of it is held, and one port after the other is tried.
func (r *round[ID, V]) divide(ctx context.Context, group []*step[ID, V], refusal error) error {
	next := make([]stage[ID, V], len(group))
	for i, s := range group {
		if s.key() == (plan.Key{}) {
			return refusal
		}
		next[i] = s.to
		s.to = r.hold(s.from, s.to)
	}
	if err := r.try(ctx, group, false); err != nil {
		return err
	}
	if len(group) == 1 {
		r.bad[group[0].key()] = refusal
		return nil
	}
	for i, s := range group {
		s.from, s.to = s.to, next[i]
		err := r.try(ctx, group[i:i+1], false)
		if errors.Is(err, ErrRefused) {
			r.bad[s.key()], err = err, nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// try writes steps in one piece, and with them removes the strays if it shall. If that is refused, everything is as before.
func (r *round[ID, V]) try(ctx context.Context, steps []*step[ID, V], andStrays bool) error {
	t := r.turn(steps)
	edits := t.edits()
	if andStrays {
		edits = append(edits, removals(r.e.strays, t.index)...)
	}
	err := r.put(ctx, edits)
	if errors.Is(err, ErrRefused) {
		r.turnBack(steps)
	}
	if err != nil {
		return err
	}
	r.settle(t, steps)
	if andStrays {
		r.e.strays = nil
	}
	return nil
}

// put makes edits; those that were refused halfway are reversed.
func (r *round[ID, V]) put(ctx context.Context, edits []Edit[ID, V]) error {
	if len(edits) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	err := r.e.dialect.Write(ctx, edits)
	if err == nil {
		r.stats.Commits++
		r.stats.Written += len(edits)
		return nil
	}
	if !errors.Is(err, ErrRefused) {
		return fmt.Errorf("write: %w", err)
	}
	if errors.Is(err, ErrHalfway) {
		if undo := r.e.dialect.Write(ctx, reverse(edits)); undo != nil {
			// Not wrapped as it is: that the reverse is refused too leaves nothing to go on with.
			return fmt.Errorf("write: %s; and the reverse: %s", err.Error(), undo.Error())
		}
	}
	return err
}

func reverse[ID comparable, V any](edits []Edit[ID, V]) []Edit[ID, V] {
	out := make([]Edit[ID, V], 0, len(edits))
	for _, x := range slices.Backward(edits) {
		out = append(out, Edit[ID, V]{x.ID, x.New, x.Old})
	}
	return out
}

// sweep removes the strays, which are left if something was refused. While ports are held they may be what these need.
func (r *round[ID, V]) sweep(ctx context.Context) error {
	if len(r.e.strays) == 0 || len(r.e.held) > 0 && !r.stats.Full {
		return nil
	}
	if err := r.remove(ctx, removals(r.e.strays, nil)); err != nil {
		return err
	}
	if n := len(r.e.strays); n > 0 && len(r.e.held) == 0 {
		return fmt.Errorf("%d objects that nobody wants cannot be removed", n)
	}
	return nil
}

// remove removes strays, and halves them for as long as some are refused.
func (r *round[ID, V]) remove(ctx context.Context, edits []Edit[ID, V]) error {
	if len(edits) <= r.e.pieceSize() {
		err := r.put(ctx, edits)
		switch {
		case err == nil:
			for _, x := range edits {
				delete(r.e.strays, x.ID)
			}
			return nil
		case !errors.Is(err, ErrRefused):
			return err
		case len(edits) == 1:
			return nil
		}
	}
	half := len(edits) / 2
	if err := r.remove(ctx, edits[:half]); err != nil {
		return err
	}
	return r.remove(ctx, edits[half:])
}
