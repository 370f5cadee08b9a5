package iptables

import (
	"maps"
	"slices"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A model is the desired content of one family's tables, and knows which chains a
// change of Service ports is about.
type model struct {
	*layout
	ports  map[plan.Key]*plan.Port
	trees  [numTrees]*dispatch
	counts map[place]int
}

// A revision is what has to be written. Each part is atomic in the kernel, one after the
// other: frontends that come to deny do so before table nat lets go of them, and
// those that forward no longer deny only after it took them.
type revision struct {
	deny chainEdit // table filter, first
	nat  chainEdit
	rest chainEdit // table filter, last
}

func newModel(l *layout) *model {
	m := &model{layout: l, ports: make(map[plan.Key]*plan.Port), counts: make(map[place]int)}
	m.trees = [numTrees]*dispatch{
		treeIPs:        newDispatch(chainIPs, "frontends", l.bits),
		treePorts:      newDispatch(chainPorts, "NodePorts", 0),
		treeDenyIPs:    newDispatch(chainDenyIPs, "frontends that deny", l.bits),
		treeDenyPorts:  newDispatch(chainDenyPorts, "NodePorts that deny", 0),
		treeClusterIPs: newDispatch(chainClusterIPs, "ClusterIPs", l.bits),
		treeHealth:     newDispatch(chainHealth, "health checks", 0),
	}
	return m
}

// all returns the ports of a plan as changes of an empty one.
func all(p *plan.Plan) []plan.Change {
	changes := make([]plan.Change, 0, p.Len())
	for port := range p.All() {
		changes = append(changes, plan.Change{Key: port.Key, After: port})
	}
	return changes
}

// build returns a model with ports, and all of its chains.
func build(l *layout, ports []plan.Change) (*model, *revision) {
	m := newModel(l)
	r := m.change(ports)
	for t, d := range m.trees {
		if len(d.keys) == 0 {
			maps.Copy(r.of(tree(t)), d.all())
		}
	}
	for _, c := range l.fixedChains(nat) {
		r.nat[c.name] = c
	}
	for _, c := range l.fixedChains(filter) {
		r.rest[c.name] = c
	}
	return m, r
}

// of returns the part of the revision that has the chains of a tree.
func (r *revision) of(t tree) chainEdit {
	switch t {
	case treeIPs, treePorts:
		return r.nat
	case treeDenyIPs, treeDenyPorts:
		return r.deny
	case treeClusterIPs, treeHealth:
	}
	return r.rest
}

// filter returns both parts of table filter in one.
func (r *revision) filter() chainEdit {
	all := maps.Clone(r.deny)
	maps.Copy(all, r.rest)
	return all
}

// forget deletes all chains that exist and are not of the revision, which must be whole.
func (r *revision) forget(have *[numTables]*state) {
	all := r.filter()
	for name := range have[filter].chains {
		if _, ok := all[name]; !ok {
			r.rest[name] = nil
		}
	}
	for name := range have[nat].chains {
		if _, ok := r.nat[name]; !ok {
			r.nat[name] = nil
		}
	}
}

// change brings changes of ports into the model. What is in place comes from the model, not
// from the changes.
func (m *model) change(changes []plan.Change) *revision {
	r := &revision{deny: make(chainEdit), nat: make(chainEdit), rest: make(chainEdit)}
	moves := make(map[place]string)
	counted := make(map[place]string)
	for _, c := range changes {
		if c.Key.Family == m.ip {
			m.remove(c.Key, r, moves, counted)
		}
	}
	for _, c := range changes {
		if c.Key.Family == m.ip && c.After != nil {
			m.add(c.After, r, moves, counted)
		}
	}
	for at, do := range counted {
		if m.counts[at] == 0 {
			delete(m.counts, at)
			do = ""
		}
		moves[at] = do
	}
	m.move(r, moves)
	return r
}

func (m *model) remove(k plan.Key, r *revision, moves, counted map[place]string) {
	old := m.compile(m.ports[k])
	delete(m.ports, k)
	for _, c := range old.chains[nat] {
		r.nat[c.name] = nil
	}
	for _, c := range old.chains[filter] {
		r.rest[c.name] = nil
	}
	for at := range old.places {
		moves[at] = ""
	}
	for at, do := range old.counted {
		m.counts[at]--
		counted[at] = do
	}
}

func (m *model) add(p *plan.Port, r *revision, moves, counted map[place]string) {
	m.ports[p.Key] = p
	next := m.compile(p)
	for _, c := range next.chains[nat] {
		r.nat[c.name] = c
	}
	for _, c := range next.chains[filter] {
		r.deny[c.name] = c
		delete(r.rest, c.name)
	}
	maps.Copy(moves, next.places)
	for at, do := range next.counted {
		m.counts[at]++
		counted[at] = do
	}
}

// move changes the trees. Those that deny take up what is new first and forget the old
// last.
func (m *model) move(r *revision, moves map[place]string) {
	var by, late [numTrees]map[site]string
	for at, do := range moves {
		to := &by
		if do == "" && (at.tree == treeDenyIPs || at.tree == treeDenyPorts) {
			to = &late
		}
		if to[at.tree] == nil {
			to[at.tree] = make(map[site]string)
		}
		to[at.tree][at.site] = do
	}
	for t := range m.trees {
		if len(by[t]) > 0 {
			maps.Copy(r.of(tree(t)), m.trees[t].update(by[t]))
		}
	}
	for t := range m.trees {
		if len(late[t]) > 0 {
			maps.Copy(r.rest, m.trees[t].update(late[t]))
		}
	}
}

// names returns the names of an edit, sorted.
func (e chainEdit) names() []string { return slices.Sorted(maps.Keys(e)) }
