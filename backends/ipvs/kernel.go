package ipvs

import (
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/vipkit/vipkit/backends/ipvs/internal/seam"
)

// A Kernel keeps virtual servers: the IPVS of one network namespace, from [Open], or one in memory, from package
// ipvstest. It has a method Close, after which it must not be used, and is safe for concurrent use.
type Kernel = seam.Kernel

// kernel is what is asked of a [Kernel]. Each method is one request.
//
// Errors: a method that adds returns one that is [fs.ErrExist] if the object is there
// already; the others return one that is [fs.ErrNotExist] if it, or the virtual server it
// belongs to, is not there. A scheduler that the kernel lacks is [errors.ErrUnsupported].
type kernel interface {
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
}

// Timeouts are how long IPVS in this network namespace keeps connections without a
// packet, in whole seconds. As given in [Options], zero means as it is.
type Timeouts struct {
	TCP    time.Duration // established
	TCPFin time.Duration // after a FIN
	UDP    time.Duration
}

// behind returns what to ask; a Kernel that nobody opened has no IPVS.
func behind(k *Kernel) kernel {
	if impl, ok := seam.Impl(k).(kernel); ok {
		return impl
	}
	return noKernel{}
}

// noKernel has no virtual servers and takes none.
type noKernel struct{}

func (noKernel) Servers() ([]VirtualServer, error)           { return nil, errNoIPVS(nil) }
func (noKernel) Server(ServerKey) (VirtualServer, error)     { return VirtualServer{}, errNoIPVS(nil) }
func (noKernel) AddServer(VirtualServer) error               { return errNoIPVS(nil) }
func (noKernel) SetServer(VirtualServer) error               { return errNoIPVS(nil) }
func (noKernel) DeleteServer(ServerKey) error                { return errNoIPVS(nil) }
func (noKernel) RealServers(ServerKey) ([]RealServer, error) { return nil, errNoIPVS(nil) }
func (noKernel) AddReal(ServerKey, RealServer) error         { return errNoIPVS(nil) }
func (noKernel) SetReal(ServerKey, RealServer) error         { return errNoIPVS(nil) }
func (noKernel) DeleteReal(ServerKey, netip.AddrPort) error  { return errNoIPVS(nil) }
func (noKernel) SetTimeouts(Timeouts) error                  { return errNoIPVS(nil) }
func (noKernel) Timeouts() (Timeouts, error)                 { return Timeouts{}, errNoIPVS(nil) }

// isRefusal reports whether an error of the kernel says that it cannot do this, and not that it is short of
// something or was disturbed.
func isRefusal(err error) bool {
	return slices.ContainsFunc([]error{
		errors.ErrUnsupported, syscall.EINVAL, syscall.EAFNOSUPPORT, syscall.EPROTONOSUPPORT, syscall.EADDRNOTAVAIL, syscall.EACCES,
	}, func(e error) bool { return errors.Is(err, e) })
}
