package nftables

import (
	"net/netip"
	"slices"

	"github.com/vipkit/vipkit/endpoints"
)

// reslot gives every endpoint of a pool a slot, as its index in the result, and
// moves as few as possible: an endpoint keeps the slot it has in old, newcomers fill the holes
// in the order of the pool, and the last slots move into holes that are left. Of the
// endpoints in old only the addresses count. The result may be pool itself, which saves
// the memory where no history says otherwise.
func reslot(old, pool []*endpoints.Endpoint) []*endpoints.Endpoint {
	if len(old) == 0 || len(pool) == 0 {
		return pool
	}
	unplaced := make(map[netip.AddrPort]*endpoints.Endpoint, len(pool))
	for _, e := range pool {
		unplaced[e.Addr] = e
	}
	slots := make([]*endpoints.Endpoint, len(old), max(len(old), len(pool)))
	var holes []int
	for i, o := range old {
		slots[i] = unplaced[o.Addr]
		if slots[i] == nil { // gone, or a doubtful old has it twice
			holes = append(holes, i)
		}
		delete(unplaced, o.Addr)
	}
	fresh := slices.DeleteFunc(slices.Clone(pool), func(e *endpoints.Endpoint) bool { return unplaced[e.Addr] == nil })
	for len(holes) > 0 && len(fresh) > 0 {
		slots[holes[0]], holes, fresh = fresh[0], holes[1:], fresh[1:]
	}
	slots = append(closeHoles(slots, holes), fresh...)
	if slices.Equal(slots, pool) {
		return pool
	}
	return slots
}

// closeHoles moves the last slots into the holes, which are in ascending order.
func closeHoles(slots []*endpoints.Endpoint, holes []int) []*endpoints.Endpoint {
	for len(holes) > 0 {
		last := len(slots) - 1
		if hole := len(holes) - 1; holes[hole] == last {
			holes = holes[:hole]
		} else {
			slots[holes[0]] = slots[last]
			holes = holes[1:]
		}
		slots = slots[:last]
	}
	return slots
}
