package ipvs

import "net/netip"

// links are the addresses of the node.
type links interface {
	// bound returns the addresses that we bound, and for each the source with which the node dials it.
	bound() (map[netip.Addr]netip.Addr, error)

	// others returns the addresses of all interfaces.
	others() ([]netip.Addr, error)

	// bind makes the machine take packets to an address. Its own packets to it get the source src, if that is valid.
	bind(a, src netip.Addr) error

	// unbind is the reverse; an address that is not bound is no error.
	unbind(a netip.Addr) error

	// removeOld removes the interface on which an earlier version had the addresses, if there is one.
	removeOld() error
}
