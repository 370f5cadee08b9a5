package plan

import (
	"maps"
	"slices"
)

// Hold returns p with the given ports as they were before: nil removes the port.
// It is how a consumer is shown what another one could not do; a [Cursor] that is
// given the result takes these ports up again by itself.
//
// In the result every address still has one owner. An address of a held port that
// by now is another port's, which is not held, stays with that one; a held port that
// keeps no address is gone. Health, Conflicts and Problems are those of p.
//
// A Key of the map must be that of its Port. The cost is that of the ports held.
func (p *Plan) Hold(ports map[Key]*Port) *Plan {
	p = p.orEmpty()
	if len(ports) == 0 {
		return p
	}
	if p.base != nil {
		all := p.heldPorts()
		maps.Copy(all, ports)
		return p.base.Hold(all)
	}
	next := *p
	next.base = p
	next.held = slices.SortedFunc(maps.Keys(ports), Key.Compare)
	u := update{Plan: &next, edit: &edit{}}
	for _, k := range next.held {
		u.withdraw(p.Port(k))
	}
	for _, k := range next.held {
		// One after the other, so that two held ports cannot both take one site.
		u.replace(k, u.keepFree(ports[k]))
	}
	return u.Plan
}

func (p *Plan) heldPorts() map[Key]*Port {
	m := make(map[Key]*Port, len(p.held))
	for _, k := range p.held {
		m[k] = p.Port(k)
	}
	return m
}

// withdraw takes the sites of a port away from it.
func (u *update) withdraw(port *Port) {
	if port == nil {
		return
	}
	for i := range port.Frontends {
		u.claims.remove(u.edit, siteOf(&port.Frontends[i], port.Key))
	}
}

// keepFree gives a port the sites that are free, and returns it with those only.
func (u *update) keepFree(port *Port) *Port {
	if port == nil {
		return nil
	}
	free := make([]Frontend, 0, len(port.Frontends))
	for i := range port.Frontends {
		f := port.Frontends[i]
		s := siteOf(&f, port.Key)
		if other, _ := u.owner(s); other == nil {
			u.claims.set(u.edit, s, []claim{{owner: port.PortName, kind: f.Kind}})
			free = append(free, f)
		}
	}
	switch len(free) {
	case len(port.Frontends):
		return port
	case 0:
		return nil
	default:
		less := *port
		less.Frontends = free
		return &less
	}
}

// replace puts a port, which may be nil, in the place of the one with that key.
func (u *update) replace(k Key, port *Port) {
	var e entry
	if old := u.services.at(svcName(k.NamespacedName)); old != nil {
		e = *old
	}
	i, found := e.find(k)
	e.ports = slices.Clone(e.ports)
	if found {
		u.count(e.ports[i], -1)
		e.ports = slices.Delete(e.ports, i, i+1)
	}
	if port != nil {
		u.count(port, +1)
		e.ports = slices.Insert(e.ports, i, port)
	}
	u.services.set(u.edit, svcName(k.NamespacedName), &e)
}
