package nftables

import (
	"net/netip"
	"slices"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy/plan"
)

// maxPool is how many endpoints a pool of a Service port can have: the slots of a local pool
// begin where those of the cluster pool end.
const maxPool = localSlots

// limit returns a LimitError if p is more than the tables can hold.
func limit(p *plan.Port) error {
	cluster, local := usedPools(p)
	switch {
	case cluster && len(p.Cluster) > maxPool:
		return &backends.LimitError{What: "endpoints in the cluster pool", Have: len(p.Cluster), Most: maxPool}
	case local && len(p.Local) > maxPool:
		return &backends.LimitError{What: "endpoints in the local pool", Have: len(p.Local), Most: maxPool}
	default:
		return nil
	}
}

// feasible returns what is to be in place of a port of p: the port, or if that is beyond a limit,
// which is noted, the old one. Old may be nil.
func (b *Backend) feasible(port *plan.Port, old *portState, p *plan.Plan) *plan.Port {
	err := limit(port)
	if err == nil {
		return port
	}
	if b.beyond == nil {
		b.beyond = make(map[plan.Key]error)
	}
	b.beyond[port.Key] = err
	if old == nil {
		return nil
	}
	return rest(old.port, p)
}

// rest returns an old version of a port without the addresses that p has given to others, nil if
// none is left.
func rest(old *plan.Port, p *plan.Plan) *plan.Port {
	taken := func(f plan.Frontend) bool {
		owner, _ := p.LookupNodePort(old.Family, f.Port, old.Protocol)
		if f.Kind != plan.NodePort {
			owner, _ = p.Lookup(netip.AddrPortFrom(f.Addr, f.Port), old.Protocol)
		}
		return owner != nil && owner.Key != old.Key
	}
	if !slices.ContainsFunc(old.Frontends, taken) {
		return old
	}
	less := *old
	less.Frontends = slices.DeleteFunc(slices.Clone(old.Frontends), taken)
	if len(less.Frontends) == 0 {
		return nil
	}
	return &less
}
