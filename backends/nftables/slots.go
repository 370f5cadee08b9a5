package nftables

import (
	"net/netip"

	"github.com/vipkit/vipkit/endpoints"
)

// reslot gives every endpoint of a pool a slot, as its index in the result, and
// moves as few as possible: an endpoint keeps the slot it has in old, newcomers fill the holes
// in the order of the pool, and the last slots move into holes that are left.
func reslot(old []netip.AddrPort, pool []*endpoints.Endpoint) []netip.AddrPort {
	if len(pool) == 0 {
		return nil
	}
	fresh := newcomers(old, pool)
	stays := make(map[netip.AddrPort]bool, len(pool))
	for _, e := range pool {
		stays[e.Addr] = true
	}
	slots := make([]netip.AddrPort, 0, len(pool))
	var holes []int
	for i, a := range old {
		if stays[a] {
			delete(stays, a) // a doubtful old may have it twice
			slots = append(slots, a)
			continue
		}
		holes = append(holes, i)
		slots = append(slots, netip.AddrPort{})
	}
	for len(holes) > 0 && len(fresh) > 0 {
		slots[holes[0]], holes, fresh = fresh[0], holes[1:], fresh[1:]
	}
	return append(closeHoles(slots, holes), fresh...)
}

// newcomers returns the endpoints of pool that are not in old.
func newcomers(old []netip.AddrPort, pool []*endpoints.Endpoint) []netip.AddrPort {
	had := make(map[netip.AddrPort]bool, len(old))
	for _, a := range old {
		had[a] = true
	}
	var fresh []netip.AddrPort
	for _, e := range pool {
		if !had[e.Addr] {
			fresh = append(fresh, e.Addr)
		}
	}
	return fresh
}

// closeHoles moves the last slots into the holes, which are in ascending order.
func closeHoles(slots []netip.AddrPort, holes []int) []netip.AddrPort {
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
