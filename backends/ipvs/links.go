package ipvs

import (
	"maps"
	"net/netip"
	"slices"
)

// links are the network interfaces of the node.
type links interface {
	// bound returns the addresses of our interface, and for each the source with which the node
	// dials it. There are none if the interface does not exist.
	bound() (map[netip.Addr]netip.Addr, error)

	// others returns the addresses of all other interfaces.
	others() ([]netip.Addr, error)

	// bind adds an address to our interface, which it makes if need be. The node's own packets to it
	// get the source src, if that is valid.
	bind(a, src netip.Addr) error

	// unbind removes an address from our interface; one that is not there is no error.
	unbind(a netip.Addr) error

	// remove removes our interface.
	remove() error
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

func (m *memoryLinks) remove() error {
	m.ours = nil
	return nil
}
