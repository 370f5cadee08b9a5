package engine

import (
	"cmp"
	"slices"

	"github.com/vipkit/vipkit/proxy/plan"
)

// claims are the wishes for objects that more than one port may have: of shared objects all wishes, of others all if
// a held port has one. Where there is an entry it decides what is in place.
type claims[ID comparable, V any] map[ID][]claim[V]

// A claim is the wish of one port for an object.
type claim[V any] struct {
	port   *plan.Port // nil for what belongs to no port
	value  V
	rank   uint8
	shared bool
	held   bool // of an older version of the port, which could not be replaced
}

func keyOf(p *plan.Port) plan.Key {
	if p == nil {
		return plan.Key{}
	}
	return p.Key
}

// before reports whether c wins against o.
func (c claim[V]) before(o claim[V]) bool {
	if c.held != o.held {
		return o.held
	}
	return cmp.Or(cmp.Compare(o.rank, c.rank), keyOf(c.port).Compare(keyOf(o.port))) < 0
}

// winner returns what the claims for an object make of it, nil if there is none.
func (c claims[ID, V]) winner(id ID) *V {
	list := c[id]
	if len(list) == 0 {
		return nil
	}
	best := list[0]
	for _, other := range list[1:] {
		if other.before(best) {
			best = other
		}
	}
	return &best.value
}

// add adds a claim unless the port has one, which then is the last: a port claims all that it wants in a row.
func (c claims[ID, V]) add(id ID, one claim[V]) {
	list := c[id]
	if n := len(list); n > 0 && keyOf(list[n-1].port) == keyOf(one.port) {
		return
	}
	c[id] = append(list, one)
}

// remove takes the claim of a port back, if there is one.
func (c claims[ID, V]) remove(id ID, key plan.Key) {
	list, ok := c[id]
	if !ok {
		return
	}
	if list = slices.DeleteFunc(list, func(o claim[V]) bool { return keyOf(o.port) == key }); len(list) == 0 {
		delete(c, id)
		return
	}
	c[id] = list
}

// enter adds what a port wants as claims, where others may want it too or it is held.
func (c claims[ID, V]) enter(s stage[ID, V]) {
	for i := range s.objects {
		if o := &s.objects[i]; o.Shared || s.held {
			c.add(o.ID, claim[V]{s.port, o.Value, o.Rank, o.Shared, s.held})
		}
	}
}

// join adds the rest of what a port wants, where there are claims of others.
func (c claims[ID, V]) join(s stage[ID, V]) {
	if s.held {
		return
	}
	for i := range s.objects {
		o := &s.objects[i]
		if _, ok := c[o.ID]; ok && !o.Shared {
			c.add(o.ID, claim[V]{port: s.port, value: o.Value, rank: o.Rank})
		}
	}
}

// leave takes back what a port claims of a stage.
func (c claims[ID, V]) leave(s stage[ID, V]) {
	for i := range s.objects {
		c.remove(s.objects[i].ID, keyOf(s.port))
	}
}

// prune forgets the claims for an object that by now belongs to the port which the plan says.
func (c claims[ID, V]) prune(id ID) {
	if list := c[id]; len(list) == 1 && !list[0].held && !list[0].shared {
		delete(c, id)
	}
}
