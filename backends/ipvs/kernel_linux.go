package ipvs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"github.com/moby/ipvs"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/internal/process"
	"github.com/vipkit/vipkit/backends/ipvs/internal/seam"
)

// Flags of a virtual server, IP_VS_SVC_F_… in linux/ip_vs.h. Flag 2 is the kernel's own
// and set in every answer.
const (
	flagPersistent = 0x1
	flagFallback   = 0x8
	flagPort       = 0x10
)

// Open returns the IPVS of the network namespace of the calling thread, for good: other
// threads may use it.
//
// It runs modprobe if IPVS is not there yet. The error wraps [errors.ErrUnsupported] if the
// kernel has no IPVS. CAP_NET_ADMIN is needed.
func Open() (*Kernel, error) {
	if err := load(); process.Broke(err) && !process.Missing(err) {
		return nil, fmt.Errorf("ipvs: open: %w", err) // it may be there
	} else if err != nil {
		return nil, errNoIPVS(err)
	}
	handle, err := ipvs.New("")
	if err != nil {
		return nil, fmt.Errorf("ipvs: open: %w", err)
	}
	return seam.New(&linux{handle: handle}), nil
}

// load loads the kernel module, if need be. The library would too, but remember for the
// rest of the process that it failed, and log it.
func load() error {
	_, err := netlink.GenlFamilyGet("IPVS")
	if err == nil {
		return nil
	}
	// The only wait that no caller can end: Open has no context.
	c := process.Command{Path: "modprobe", Args: []string{"ip_vs"}, Timeout: process.DefaultTimeout}
	if _, err = c.Run(context.Background()); err != nil {
		return err
	}
	_, err = netlink.GenlFamilyGet("IPVS")
	return err
}

// linux speaks to the kernel. A request and its answers share one socket.
type linux struct {
	mu     sync.Mutex
	handle *ipvs.Handle
}

func (l *linux) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handle.Close()
	return nil
}

func (l *linux) Servers() ([]VirtualServer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, err := l.handle.GetServices()
	if err != nil {
		return nil, fmt.Errorf("ipvs: list virtual servers: %w", err)
	}
	out := make([]VirtualServer, 0, len(found))
	for _, s := range found {
		out = append(out, fromService(s))
	}
	return out, nil
}

func (l *linux) Server(k ServerKey) (VirtualServer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s, err := l.handle.GetService(toService(&VirtualServer{ServerKey: k}))
	if err != nil {
		return VirtualServer{}, kernelError("get virtual server", k, err)
	}
	return fromService(s), nil
}

func (l *linux) AddServer(v VirtualServer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return schedulerError("add virtual server", &v, l.handle.NewService(toService(&v)))
}

func (l *linux) SetServer(v VirtualServer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return schedulerError("change virtual server", &v, l.handle.UpdateService(toService(&v)))
}

// schedulerError tells a scheduler that is missing, for which the kernel says ENOENT, from a
// virtual server that is missing, for which it says ESRCH.
func schedulerError(op string, v *VirtualServer, err error) error {
	if errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("ipvs: %s %s: %w", op, v.ServerKey, errNoScheduler(v.Scheduler))
	}
	return kernelError(op, v.ServerKey, err)
}

func (l *linux) DeleteServer(k ServerKey) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return kernelError("delete virtual server", k, l.handle.DelService(toService(&VirtualServer{ServerKey: k})))
}

func (l *linux) RealServers(k ServerKey) ([]RealServer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, err := l.handle.GetDestinations(toService(&VirtualServer{ServerKey: k}))
	if err != nil {
		return nil, kernelError("list real servers of", k, err)
	}
	out := make([]RealServer, 0, len(found))
	for _, d := range found {
		out = append(out, fromDestination(d))
	}
	return out, nil
}

func (l *linux) AddReal(k ServerKey, r RealServer) error {
	return l.real("add", k, r, (*ipvs.Handle).NewDestination)
}

func (l *linux) SetReal(k ServerKey, r RealServer) error {
	return l.real("change", k, r, (*ipvs.Handle).UpdateDestination)
}

func (l *linux) DeleteReal(k ServerKey, addr netip.AddrPort) error {
	return l.real("delete", k, RealServer{Addr: addr}, (*ipvs.Handle).DelDestination)
}

func (l *linux) real(op string, k ServerKey, r RealServer, do func(*ipvs.Handle, *ipvs.Service, *ipvs.Destination) error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := do(l.handle, toService(&VirtualServer{ServerKey: k}), toDestination(r)); err != nil {
		return kernelError(fmt.Sprintf("%s real server %s of", op, r.Addr), k, err)
	}
	return nil
}

func (l *linux) SetTimeouts(t Timeouts) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.handle.SetConfig(&ipvs.Config{
		TimeoutTCP:    wholeSeconds(t.TCP),
		TimeoutTCPFin: wholeSeconds(t.TCPFin),
		TimeoutUDP:    wholeSeconds(t.UDP),
	})
	if err != nil {
		return fmt.Errorf("ipvs: set timeouts: %w", err)
	}
	return nil
}

func (l *linux) Timeouts() (Timeouts, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, err := l.handle.GetConfig()
	if err != nil {
		return Timeouts{}, fmt.Errorf("ipvs: get timeouts: %w", err)
	}
	return Timeouts{TCP: c.TimeoutTCP, TCPFin: c.TimeoutTCPFin, UDP: c.TimeoutUDP}, nil
}

// kernelError makes ESRCH, the kernel's word for a virtual server that is not there, a
// [fs.ErrNotExist] as ENOENT is.
func kernelError(op string, k ServerKey, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.ESRCH):
		return fmt.Errorf("ipvs: %s %s: %w", op, k, fs.ErrNotExist)
	default:
		return fmt.Errorf("ipvs: %s %s: %w", op, k, err)
	}
}

func toService(v *VirtualServer) *ipvs.Service {
	s := &ipvs.Service{
		SchedName:     v.Scheduler,
		Timeout:       uint32(v.Persistence / time.Second),
		Netmask:       0xffffffff,
		AddressFamily: syscall.AF_INET,
	}
	if v.Family == corev1.IPv6Protocol {
		s.AddressFamily, s.Netmask = syscall.AF_INET6, 128
	}
	if v.Mark != 0 {
		s.FWMark = v.Mark
	} else {
		s.Address, s.Port, s.Protocol = v.Addr.Addr().AsSlice(), v.Addr.Port(), protocolNumber(v.Protocol)
	}
	for flag, set := range map[uint32]bool{flagPersistent: v.Persistence > 0, flagFallback: v.HashFallback, flagPort: v.HashPort} {
		if set {
			s.Flags |= flag
		}
	}
	return s
}

func fromService(s *ipvs.Service) VirtualServer {
	v := VirtualServer{
		ServerKey:    ServerKey{Mark: s.FWMark, Family: corev1.IPv4Protocol},
		Scheduler:    s.SchedName,
		HashFallback: s.Flags&flagFallback != 0,
		HashPort:     s.Flags&flagPort != 0,
	}
	if s.AddressFamily == syscall.AF_INET6 {
		v.Family = corev1.IPv6Protocol
	}
	if s.Flags&flagPersistent != 0 {
		v.Persistence = time.Duration(s.Timeout) * time.Second
	}
	if s.FWMark != 0 {
		return v
	}
	v.Addr = joinAddr(s.Address, s.Port)
	for _, p := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
		if protocolNumber(p) == s.Protocol {
			v.Protocol = p
		}
	}
	v.Connectionless = v.Protocol == corev1.ProtocolUDP
	return v
}

func toDestination(r RealServer) *ipvs.Destination {
	family := uint16(syscall.AF_INET)
	if r.Addr.Addr().Is6() {
		family = syscall.AF_INET6
	}
	return &ipvs.Destination{
		Address: r.Addr.Addr().AsSlice(), Port: r.Addr.Port(), AddressFamily: family,
		Weight: r.Weight, ConnectionFlags: uint32(r.Forward),
		UpperThreshold: r.deadline, LowerThreshold: r.deadline,
	}
}

func fromDestination(d *ipvs.Destination) RealServer {
	r := RealServer{
		Addr:   joinAddr(d.Address, d.Port),
		Weight: d.Weight, Forward: Forward(d.ConnectionFlags & ipvs.ConnectionFlagFwdMask),
		Active: d.ActiveConnections, Inactive: d.InactiveConnections,
	}
	if d.UpperThreshold == d.LowerThreshold {
		r.deadline = d.LowerThreshold
	}
	return r
}

func joinAddr(ip net.IP, port uint16) netip.AddrPort {
	a, _ := netip.AddrFromSlice(ip)
	return netip.AddrPortFrom(a.Unmap(), port)
}

// supported reports why a Backend cannot work here, nil if it can.
func supported() error { return nil }
