package ipvs

import (
	"net/netip"
	"time"
)

// A Kernel keeps virtual servers: IPVS in one network namespace, as [Open] returns it, or
// a [Memory]. Each method is one request. It is safe for concurrent use.
//
// Errors: a method that adds returns one that is [fs.ErrExist] if the object is there
// already; the others return one that is [fs.ErrNotExist] if it, or the virtual server it
// belongs to, is not there. A scheduler that the kernel lacks is [errors.ErrUnsupported].
type Kernel interface {
	// Servers returns all virtual servers, whoever made them, without real servers, in
	// no order.
	Servers() ([]VirtualServer, error)

	// Server returns one without its real servers.
	Server(k ServerKey) (VirtualServer, error)

	// AddServer makes a virtual server, SetServer changes its settings in place. Both
	// ignore v.Real.
	AddServer(v VirtualServer) error
	SetServer(v VirtualServer) error

	// DeleteServer removes a virtual server with its real servers.
	DeleteServer(k ServerKey) error

	// RealServers returns those of one virtual server, in no order. If there is no such
	// virtual server, the list may be empty without an error.
	RealServers(k ServerKey) ([]RealServer, error)

	// AddReal adds a real server, SetReal changes its weight in place: connections stay.
	AddReal(k ServerKey, r RealServer) error
	SetReal(k ServerKey, r RealServer) error

	// DeleteReal removes a real server. Packets of its connections are dropped from then on;
	// with the setting expire_nodest_conn their connections end.
	DeleteReal(k ServerKey, addr netip.AddrPort) error

	// SetTimeouts sets how long idle connections are kept; a zero stays as it is.
	SetTimeouts(t Timeouts) error
	Timeouts() (Timeouts, error)

	// Close gives back what Open took. Nothing in the kernel changes.
	Close() error
}

// Timeouts are how long IPVS in this network namespace keeps connections without a
// packet, in whole seconds. As given to [Kernel] and in [Options], zero means as it is.
type Timeouts struct {
	TCP    time.Duration // established
	TCPFin time.Duration // after a FIN
	UDP    time.Duration
}
