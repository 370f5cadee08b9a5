package plan

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/service"
)

// Input is what changed since a Plan was made.
type Input struct {
	// Config is the new configuration, nil if it did not change.
	Config *Config

	// Services and Endpoints have the new version of every object that changed,
	// nil if it is gone. Endpoints may come before their Service and stay when
	// it goes. The keys count, not the names inside.
	Services  map[types.NamespacedName]*service.Service
	Endpoints map[types.NamespacedName]*endpoints.Set
}

// A Diff names what differs between a Plan and the one that Update made of it.
type Diff struct {
	Ports  []Key                  // sorted
	Health []types.NamespacedName // Services whose Health differs, sorted
	Config bool                   // the configuration differs
}

// Update returns the Plan that in makes of p, and what is different. p is
// unchanged. Only the Services of which in has another object, and those that share an address
// with them, are computed again; a change of the configuration that ports depend
// on computes all. The same objects in any order of updates give equal Plans.
//
// Update of a Plan made by [Plan.Hold] goes on from the Plan that Hold was given,
// and so does the Diff.
//
// The cost is that of the Services computed, times the logarithm of their number.
func (p *Plan) Update(in Input) (*Plan, Diff) {
	p = p.orEmpty()
	if p.base != nil {
		return p.base.Update(in)
	}
	next := *p
	u := update{Plan: &next, edit: &edit{}, dirty: map[svcName]*work{}}
	if in.Config != nil {
		u.configure(in.Config.normal())
	}
	for name, svc := range in.Services {
		if old := u.services.at(svcName(name)); old == nil || old.svc != svc {
			u.setService(svcName(name), svc)
		}
	}
	for name, set := range in.Endpoints {
		if old := u.services.at(svcName(name)); old == nil || old.set != set {
			u.mark(svcName(name)).set = set
		}
	}
	u.compute()
	return u.Plan, u.diff
}

// An update is a Plan while it is made.
type update struct {
	*Plan

	edit  *edit
	dirty map[svcName]*work
	diff  Diff
}

// work is a Service that has to be computed: its new objects, and what the Plan
// has of it, which is not nil but may be empty.
type work struct {
	svc *service.Service
	set *endpoints.Set
	old *entry
}

// mark makes a Service dirty.
func (u *update) mark(n svcName) *work {
	w := u.dirty[n]
	if w == nil {
		old := u.services.at(n)
		if old == nil {
			old = &entry{}
		}
		w = &work{old.svc, old.set, old}
		u.dirty[n] = w
	}
	return w
}

func (u *update) configure(cfg Config) {
	if cfg.equal(u.cfg) {
		return
	}
	u.diff.Config = true
	old, moved := u.rules, !u.cfg.Node.samePlace(&cfg.Node)
	u.cfg, u.rules = cfg, cfg.rules()
	changed := !u.rules.equal(old)
	if !changed && !moved {
		return
	}
	for name, e := range u.services.all() {
		if changed && e.svc != nil || moved && e.set != nil {
			u.mark(name)
		}
	}
}

func (u *update) setService(name svcName, svc *service.Service) {
	w := u.mark(name)
	if svc != nil && svc.Name != types.NamespacedName(name) {
		named := *svc
		named.Name = types.NamespacedName(name)
		svc = &named
	}
	if w.svc != svc {
		u.moveClaims(claimsOf(w.svc), claimsOf(svc))
		w.svc = svc
	}
}

// moveClaims replaces the claims of one Service. Both lists are sorted by site.
func (u *update) moveClaims(before, after []siteClaim) {
	join(before, after, func(a, b siteClaim) int { return a.Compare(b.site) }, func(b, a *siteClaim) {
		if b != nil && a != nil && *b == *a {
			return
		}
		if b != nil {
			u.dropClaim(*b)
		}
		if a != nil {
			u.addClaim(*a)
		}
	})
}

// join walks over two sorted lists at once and visits the elements that belong
// together; one of them is nil where a list has none.
func join[T any](before, after []T, compare func(T, T) int, visit func(b, a *T)) {
	for i, j := 0, 0; i < len(before) || j < len(after); {
		var c int
		switch {
		case i == len(before):
			c = 1
		case j == len(after):
			c = -1
		default:
			c = compare(before[i], after[j])
		}
		var b, a *T
		if c <= 0 {
			b = &before[i]
			i++
		}
		if c >= 0 {
			a = &after[j]
			j++
		}
		visit(b, a)
	}
}

func (u *update) dropClaim(c siteClaim) {
	u.setClaims(c.site, without(u.claims.at(c.site), c.owner))
	if c.nodePort {
		u.nodePorts[index(c.family())]--
	}
}

func (u *update) addClaim(c siteClaim) {
	u.setClaims(c.site, with(u.claims.at(c.site), c.claim))
	if c.nodePort {
		u.nodePorts[index(c.family())]++
	}
}

// setClaims gives a site new claims and marks the Services between which it moves.
func (u *update) setClaims(s site, claims []claim) {
	for _, list := range [][]claim{u.claims.at(s), claims} {
		if len(list) > 0 {
			u.mark(svcName(list[0].owner.NamespacedName))
		}
	}
	if len(claims) == 0 {
		u.claims.remove(u.edit, s)
	} else {
		u.claims.set(u.edit, s, claims)
	}
	if len(claims) > 1 {
		u.contested.set(u.edit, s, struct{}{})
	} else {
		u.contested.remove(u.edit, s)
	}
}

// compute makes the ports of every dirty Service, when all claims are known.
func (u *update) compute() {
	for _, n := range slices.SortedFunc(maps.Keys(u.dirty), svcName.Compare) {
		u.computeService(n, u.dirty[n])
	}
}

func (u *update) computeService(name svcName, w *work) {
	e := &entry{svc: w.svc, set: w.set, ports: u.buildPorts(w.svc, w.set), health: buildHealth(w.svc, w.set, u.rules.node.Name)}
	e.here = u.cfg.presence(w.set)
	u.here = u.here.add(e.here).sub(w.old.here)
	u.mergePorts(w.old.ports, e.ports)
	if equalHealth(w.old.health, e.health) {
		e.health = w.old.health
	} else {
		u.diff.Health = append(u.diff.Health, types.NamespacedName(name))
	}
	switch {
	case e.svc == nil && e.set == nil:
		u.services.remove(u.edit, name)
	case !e.same(w.old):
		u.services.set(u.edit, name, e)
	}
}

func (e *entry) same(o *entry) bool {
	return e.svc == o.svc && e.set == o.set && e.here == o.here && e.health == o.health && slices.Equal(e.ports, o.ports)
}

// mergePorts puts the old port in the place of each in after that is equal, and
// records the others. Both lists are sorted.
func (u *update) mergePorts(before, after []*Port) {
	join(before, after, func(a, b *Port) int { return a.Compare(b.Key) }, func(b, a **Port) {
		switch {
		case a == nil:
			u.changed(*b, nil)
		case b == nil:
			u.changed(nil, *a)
		case (*b).equal(*a):
			*a = *b
		default:
			u.changed(*b, *a)
		}
	})
}

// changed records that a port of the Plan is replaced; one of them may be nil.
func (u *update) changed(before, after *Port) {
	if before != nil {
		u.count(before, -1)
		u.diff.Ports = append(u.diff.Ports, before.Key)
	}
	if after != nil {
		u.count(after, +1)
		if before == nil {
			u.diff.Ports = append(u.diff.Ports, after.Key)
		}
	}
}

func (u *update) count(p *Port, by int) {
	u.ports += by
	for i := range p.Frontends {
		f := &p.Frontends[i]
		if f.Kind != ClusterIP {
			continue
		}
		if n := u.clusterIP.at(f.Addr) + by; n > 0 {
			u.clusterIP.set(u.edit, f.Addr, n)
		} else {
			u.clusterIP.remove(u.edit, f.Addr)
		}
	}
}
