package ipvs

import "net/netip"

// A counter counts the requests to a Kernel that change something. The Backend's lock guards it.
type counter struct {
	Kernel

	changes int
}

func (c *counter) change() Kernel {
	c.changes++
	return c.Kernel
}

func (c *counter) AddServer(v VirtualServer) error                { return c.change().AddServer(v) }
func (c *counter) SetServer(v VirtualServer) error                { return c.change().SetServer(v) }
func (c *counter) DeleteServer(k ServerKey) error                 { return c.change().DeleteServer(k) }
func (c *counter) AddReal(k ServerKey, r RealServer) error        { return c.change().AddReal(k, r) }
func (c *counter) SetReal(k ServerKey, r RealServer) error        { return c.change().SetReal(k, r) }
func (c *counter) DeleteReal(k ServerKey, a netip.AddrPort) error { return c.change().DeleteReal(k, a) }
func (c *counter) SetTimeouts(t Timeouts) error                   { return c.change().SetTimeouts(t) }
