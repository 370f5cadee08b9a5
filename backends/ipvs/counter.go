package ipvs

import "net/netip"

// A counter counts the requests to a Kernel. The Backend's lock guards it.
type counter struct {
	kernel   Kernel
	requests int
}

func (c *counter) count() Kernel {
	c.requests++
	return c.kernel
}

func (c *counter) Servers() ([]VirtualServer, error)              { return c.count().Servers() }
func (c *counter) Server(k ServerKey) (VirtualServer, error)      { return c.count().Server(k) }
func (c *counter) AddServer(v VirtualServer) error                { return c.count().AddServer(v) }
func (c *counter) SetServer(v VirtualServer) error                { return c.count().SetServer(v) }
func (c *counter) DeleteServer(k ServerKey) error                 { return c.count().DeleteServer(k) }
func (c *counter) RealServers(k ServerKey) ([]RealServer, error)  { return c.count().RealServers(k) }
func (c *counter) AddReal(k ServerKey, r RealServer) error        { return c.count().AddReal(k, r) }
func (c *counter) SetReal(k ServerKey, r RealServer) error        { return c.count().SetReal(k, r) }
func (c *counter) DeleteReal(k ServerKey, a netip.AddrPort) error { return c.count().DeleteReal(k, a) }
func (c *counter) SetTimeouts(t Timeouts) error                   { return c.count().SetTimeouts(t) }
func (c *counter) Timeouts() (Timeouts, error)                    { return c.count().Timeouts() }
func (c *counter) Close() error                                   { return c.kernel.Close() }
