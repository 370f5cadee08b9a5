package plan

import (
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
// unchanged. Only the Services named by in, and those that share an address
// with them, are computed again; a change of the configuration that ports depend
// on computes all. The same objects in any order of updates give equal Plans.
//
// Update of a Plan made by [Plan.Hold] goes on from the Plan that Hold was given,
// and so does the Diff.
//
// The cost is that of the Services computed, times the logarithm of their number.
func (p *Plan) Update(in Input) (*Plan, Diff) {
	if p.base != nil {
		return p.base.Update(in)
	}
	next := *p
	u := update{Plan: &next, edit: &edit{}, dirty: map[svcName]struct{}{}}
	if in.Config != nil {
		u.configure(in.Config.normal())
	}
	for name, svc := range in.Services {
		u.setService(svcName(name), svc)
	}
	for name, set := range in.Endpoints {
		u.setEndpoints(svcName(name), set)
	}
	u.compute()
	return u.Plan, u.diff
}

// An update is a Plan while it is made.
type update struct {
	*Plan

	edit  *edit
	dirty map[svcName]struct{}
	diff  Diff
}

func (u *update) mark(n svcName) { u.dirty[n] = struct{}{} }

func (u *update) configure(cfg Config) {
	if cfg.equal(u.cfg) {
		return
	}
	u.diff.Config = true
	old := u.rules
	u.cfg, u.rules = cfg, cfg.rules()
	if u.rules.equal(old) {
		return
	}
	for name, e := range u.services.all() {
		if e.svc != nil {
			u.mark(name)
		}
	}
}

func (u *update) setService(name svcName, svc *service.Service) {
	var e entry
	if old := u.services.at(name); old != nil {
		e = *old
	}
	if e.svc == svc {
		return
	}
	if svc != nil && svc.Name != types.NamespacedName(name) {
		named := *svc
		named.Name = types.NamespacedName(name)
		svc = &named
	}
	u.moveClaims(claimsOf(e.svc), claimsOf(svc))
	e.svc = svc
	u.services.set(u.edit, name, &e)
	u.mark(name)
}

func (u *update) setEndpoints(name svcName, set *endpoints.Set) {
	var e entry
	if old := u.services.at(name); old != nil {
		e = *old
	}
	if e.set == set {
		return
	}
	e.set = set
	u.services.set(u.edit, name, &e)
	u.mark(name)
}

// moveClaims replaces the claims of one Service. Both lists are sorted by site.
func (u *update) moveClaims(before, after []siteClaim) {
	for len(before) > 0 || len(after) > 0 {
		switch c := compareFirst(before, after); {
		case c < 0:
			u.dropClaim(before[0])
			before = before[1:]
		case c > 0:
			u.addClaim(after[0])
			after = after[1:]
		default:
			if before[0] != after[0] {
				u.dropClaim(before[0])
				u.addClaim(after[0])
			}
			before, after = before[1:], after[1:]
		}
	}
}

// compareFirst compares the first sites of two lists, not both empty; an empty
// list comes last.
func compareFirst(a, b []siteClaim) int {
	switch {
	case len(b) == 0:
		return -1
	case len(a) == 0:
		return 1
	default:
		return a[0].site.Compare(b[0].site)
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

// compute makes the ports of every dirty Service, when all claims are settled.
func (u *update) compute() {
	names := make([]svcName, 0, len(u.dirty))
	for n := range u.dirty {
		names = append(names, n)
	}
	slices.SortFunc(names, svcName.Compare)
	for _, n := range names {
		u.computeService(n, u.services.at(n))
	}
}

func (u *update) computeService(name svcName, old *entry) {
	if old == nil {
		return
	}
	e := entry{svc: old.svc, set: old.set}
	e.ports = u.mergePorts(old.ports, u.buildPorts(e.svc, e.set))
	e.health = buildHealth(e.svc, e.set, u.cfg.Node.Name)
	if equalHealth(old.health, e.health) {
		e.health = old.health
	} else {
		u.diff.Health = append(u.diff.Health, types.NamespacedName(name))
	}
	if e.svc == nil && e.set == nil {
		u.services.remove(u.edit, name)
		return
	}
	u.services.set(u.edit, name, &e)
}

// mergePorts returns after with the old port wherever it is equal, and takes down
// the others. Both lists are sorted.
func (u *update) mergePorts(before, after []*Port) []*Port {
	for i := 0; len(before) > 0 || i < len(after); {
		c := compareKeys(before, after[i:])
		switch {
		case c < 0:
			u.changed(before[0], nil)
		case c > 0:
			u.changed(nil, after[i])
		case before[0].equal(after[i]):
			after[i] = before[0]
		default:
			u.changed(before[0], after[i])
		}
		if c <= 0 {
			before = before[1:]
		}
		if c >= 0 {
			i++
		}
	}
	return after
}

func compareKeys(a, b []*Port) int {
	switch {
	case len(b) == 0:
		return -1
	case len(a) == 0:
		return 1
	default:
		return a[0].Key.Compare(b[0].Key)
	}
}

// changed takes down that a port of the Plan is replaced; one of them may be nil.
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
