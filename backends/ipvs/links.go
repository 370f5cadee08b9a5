package ipvs

import (
	"maps"
	"net/netip"
	"slices"
)

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

// memoryLinks remember what the kernel would.
type memoryLinks struct {
	ours map[netip.Addr]netip.Addr
	rest []netip.Addr
}

func (m *memoryLinks) bound() (map[netip.Addr]netip.Addr, error) { return maps.Clone(m.ours), nil }
func (m *memoryLinks) others() ([]netip.Addr, error)             { return slices.Clone(m.rest), nil }

func (m *memoryLinks) bind(a, src netip.Addr) error {
	if m.ours == nil {
		m.ours = make(map[netip.Addr]netip.Addr)
	}
	m.ours[a] = src
	return nil
}

func (m *memoryLinks) unbind(a netip.Addr) error {
	delete(m.ours, a)
	return nil
}

func (m *memoryLinks) removeOld() error { return nil }
