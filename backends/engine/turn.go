package engine

// A turn is what some steps change, while the claims are already those after it.
type turn[ID comparable, V any] struct {
	equal func(a, b V) bool
	index map[ID]int
	cells []cell[ID, V]
}

// A cell is one object before and after; nil is none.
type cell[ID comparable, V any] struct {
	id      ID
	before  *V
	after   *V
	differs bool
}

// turn lets the ports of steps claim what they are to have, and no longer what they have.
func (r *round[ID, V]) turn(steps []*step[ID, V]) *turn[ID, V] {
	size := 0
	for _, s := range steps {
		size += max(len(s.from.objects), len(s.to.objects))
	}
	t := &turn[ID, V]{equal: r.e.dialect.Equal, index: make(map[ID]int, size), cells: make([]cell[ID, V], 0, size)}
	for _, s := range steps {
		for i := range s.from.objects {
			r.note(t, s.from.objects[i].ID, &s.from.objects[i].Value)
		}
	}
	for _, s := range steps {
		for i := range s.to.objects {
			r.note(t, s.to.objects[i].ID, nil)
		}
	}
	for _, s := range steps {
		r.e.claims.leave(s.from)
	}
	for _, s := range steps {
		r.e.claims.enter(s.to)
	}
	for _, s := range steps {
		r.e.claims.join(s.to)
		for i := range s.to.objects {
			if c := &t.cells[t.index[s.to.objects[i].ID]]; c.after == nil {
				c.after = &s.to.objects[i].Value
			}
		}
	}
	for i := range t.cells {
		if w := r.e.claims.winner(t.cells[i].id); w != nil {
			t.cells[i].after = w
		}
	}
	return t
}

// note records what is in place of an object: own is what a port has that nobody else claims.
func (r *round[ID, V]) note(t *turn[ID, V], id ID, own *V) {
	if _, ok := t.index[id]; ok {
		return
	}
	before := own
	if w := r.e.claims.winner(id); w != nil {
		before = w
	}
	if v, ok := r.e.strays[id]; ok {
		have := v // on the heap only if there is one
		before = &have
	}
	t.index[id] = len(t.cells)
	t.cells = append(t.cells, cell[ID, V]{id: id, before: before})
}

// edits returns what has to be written. It asks once for each object, as that may cost something.
func (t *turn[ID, V]) edits() []Edit[ID, V] {
	n := 0
	for i := range t.cells {
		c := &t.cells[i]
		if c.differs = t.differs(c); c.differs {
			n++
		}
	}
	out := make([]Edit[ID, V], 0, n)
	for i := range t.cells {
		if c := &t.cells[i]; c.differs {
			out = append(out, Edit[ID, V]{c.id, c.before, c.after})
		}
	}
	return out
}

func (t *turn[ID, V]) differs(c *cell[ID, V]) bool {
	if c.before == nil || c.after == nil {
		return c.before != c.after
	}
	return !t.equal(*c.before, *c.after)
}

// removals returns edits that remove objects, but for those in an index.
func removals[ID comparable, V any](objects map[ID]V, but map[ID]int) []Edit[ID, V] {
	var out []Edit[ID, V]
	for id, v := range objects {
		if _, ok := but[id]; !ok {
			out = append(out, Edit[ID, V]{ID: id, Old: &v})
		}
	}
	return out
}

// turnBack gives the ports back the claims that they had.
func (r *round[ID, V]) turnBack(steps []*step[ID, V]) {
	for _, s := range steps {
		r.e.claims.leave(s.to)
	}
	for _, s := range steps {
		r.e.claims.enter(s.from)
	}
	for _, s := range steps {
		r.e.claims.join(s.from)
	}
}

// settle remembers that a turn was written.
func (r *round[ID, V]) settle(t *turn[ID, V], steps []*step[ID, V]) {
	for i := range t.cells {
		r.e.claims.prune(t.cells[i].id)
		delete(r.e.strays, t.cells[i].id)
	}
	for _, s := range steps {
		k := s.key()
		delete(r.e.held, k)
		delete(r.e.kept, k)
		switch {
		case s.to.held:
			r.e.held[k] = version[ID, V]{s.to.port, s.to.objects}
		case r.remembers(s.to.port):
			r.e.kept[k] = s.to.objects
		}
	}
}

// groups returns the steps, those together of which one gives an object to another. A held port may have to give all it has.
func (r *round[ID, V]) groups() [][]*step[ID, V] {
	sets := newSets(len(r.steps))
	gives := make(map[ID]int)
	for i, s := range r.steps {
		given := s.to.objects
		if !s.to.held {
			given = without(s.from.objects, s.to.objects)
		}
		for _, o := range given {
			if other, ok := gives[o.ID]; ok {
				sets.join(other, i)
			}
			gives[o.ID] = i
		}
	}
	if len(gives) > 0 {
		for i, s := range r.steps {
			for _, o := range s.to.objects {
				if other, ok := gives[o.ID]; ok {
					sets.join(other, i)
				}
			}
		}
	}
	var out [][]*step[ID, V]
	at := make(map[int]int)
	for i, s := range r.steps {
		n, ok := at[sets.first(i)]
		if !ok {
			n = len(out)
			at[sets.first(i)] = n
			out = append(out, nil)
		}
		out[n] = append(out[n], s)
	}
	return out
}

// sets are disjoint sets of numbers: each has the number of another one in its set, or its own.
type sets []int

func newSets(n int) sets {
	s := make(sets, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// first returns the smallest number in the set of i.
func (s sets) first(i int) int {
	for s[i] != i {
		s[i] = s[s[i]]
		i = s[i]
	}
	return i
}

func (s sets) join(i, j int) {
	i, j = s.first(i), s.first(j)
	s[max(i, j)] = min(i, j)
}

// without returns the objects with IDs that others do not have.
func without[ID comparable, V any](objects, others []Object[ID, V]) []Object[ID, V] {
	ids := make(map[ID]struct{}, len(others))
	for _, o := range others {
		ids[o.ID] = struct{}{}
	}
	var out []Object[ID, V]
	for _, o := range objects {
		if _, ok := ids[o.ID]; !ok {
			out = append(out, o)
		}
	}
	return out
}
