// Package ipvstest has an IPVS in memory, for tests and examples of what uses a [ipvs.Reconciler] without a kernel.
package ipvstest

import (
	"fmt"
	"io/fs"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/backends/ipvs/internal/seam"
	"github.com/vipkit/vipkit/internal/ip"
)

// A Memory is an IPVS in memory. It refuses what the kernel refuses. The zero value is ready to use, and it is safe
// for concurrent use.
type Memory struct {
	mu       sync.Mutex
	servers  map[ipvs.ServerKey]*server
	timeouts ipvs.Timeouts
	requests int
	fail     func(op string, k ipvs.ServerKey) error
}

// Kernel returns m for [ipvs.NewReconciler].
func (m *Memory) Kernel() *ipvs.Kernel { return seam.New(requests{m}) }

// requests are the methods that package ipvs asks for.
type requests struct{ *Memory }

type server struct {
	ipvs.VirtualServer

	real map[netip.AddrPort]ipvs.RealServer
}

// schedulers are those that a Memory has: those of Linux 6.1.
const schedulers = " rr wrr lc wlc lblc lblcr sh dh sed nq mh fo ovf "

// Connect sets the connections that a real server has. The error is [fs.ErrNotExist] if it
// is not there.
func (m *Memory) Connect(k ipvs.ServerKey, addr netip.AddrPort, active, inactive int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.servers[normal(k)]
	if !ok {
		return fmt.Errorf("ipvs: connect to %s: %w", k, fs.ErrNotExist)
	}
	r, ok := s.real[addr]
	if !ok {
		return fmt.Errorf("ipvs: connect to %s of %s: %w", addr, k, fs.ErrNotExist)
	}
	r.Active, r.Inactive = active, inactive
	s.real[addr] = r
	return nil
}

// normal returns a key in the form that the kernel answers with.
func normal(k ipvs.ServerKey) ipvs.ServerKey {
	if k.Mark != 0 {
		return k
	}
	k.Addr = netip.AddrPortFrom(k.Addr.Addr().Unmap().WithZone(""), k.Addr.Port())
	k.Family = ip.Family(k.Addr.Addr())
	return k
}

// Requests returns how often the kernel was asked for something, Close aside.
func (m *Memory) Requests() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests
}

// Fail calls f before each request, to decide whether it fails, and how. The operations are Servers, Server, AddServer, SetServer,
// DeleteServer, RealServers, AddReal, SetReal, DeleteReal, SetTimeouts and Timeouts; k is the virtual
// server that a request is about, if it is about one. f must not call the Memory; nil ends it.
func (m *Memory) Fail(f func(op string, k ipvs.ServerKey) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = f
}

// request counts a request. The caller holds the lock.
func (m *Memory) request(op string, k ipvs.ServerKey) error {
	m.requests++
	if m.fail != nil {
		if err := m.fail(op, k); err != nil {
			return fmt.Errorf("ipvs: %s: %w", op, err)
		}
	}
	return nil
}

// find returns a virtual server. The caller holds the lock.
func (m *Memory) find(op string, k ipvs.ServerKey) (*server, error) {
	if err := m.request(op, k); err != nil {
		return nil, err
	}
	s, ok := m.servers[k]
	if !ok {
		return nil, fmt.Errorf("ipvs: %s %s: %w", op, k, fs.ErrNotExist)
	}
	return s, nil
}

func (m requests) Servers() ([]ipvs.VirtualServer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.request("Servers", ipvs.ServerKey{}); err != nil {
		return nil, err
	}
	out := make([]ipvs.VirtualServer, 0, len(m.servers))
	for _, s := range m.servers {
		out = append(out, s.VirtualServer)
	}
	return out, nil
}

func (m requests) Server(k ipvs.ServerKey) (ipvs.VirtualServer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.find("Server", k)
	if err != nil {
		return ipvs.VirtualServer{}, err
	}
	return s.VirtualServer, nil
}

func (m requests) AddServer(v ipvs.VirtualServer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.request("AddServer", v.ServerKey); err != nil {
		return err
	}
	if m.servers[v.ServerKey] != nil {
		return fmt.Errorf("ipvs: AddServer %s: %w", v.ServerKey, fs.ErrExist)
	}
	if err := checkScheduler("AddServer", &v); err != nil {
		return err
	}
	if m.servers == nil {
		m.servers = make(map[ipvs.ServerKey]*server)
	}
	m.servers[v.ServerKey] = &server{VirtualServer: readBack(v), real: make(map[netip.AddrPort]ipvs.RealServer)}
	return nil
}

func (m requests) SetServer(v ipvs.VirtualServer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.find("SetServer", v.ServerKey)
	if err != nil {
		return err
	}
	if err := checkScheduler("SetServer", &v); err != nil {
		return err
	}
	s.VirtualServer = readBack(v)
	return nil
}

func checkScheduler(op string, v *ipvs.VirtualServer) error {
	if !strings.Contains(schedulers, " "+v.Scheduler+" ") {
		return fmt.Errorf("ipvs: %s %s: %w", op, v.ServerKey, &backends.UnsupportedError{Feature: fmt.Sprintf("the IPVS scheduler %q (kernel module ip_vs_%s)", v.Scheduler, v.Scheduler)})
	}
	return nil
}

// readBack returns what the kernel knows of v.
func readBack(v ipvs.VirtualServer) ipvs.VirtualServer {
	v.Real = nil
	v.Connectionless = v.Protocol == corev1.ProtocolUDP
	return v
}

func (m requests) DeleteServer(k ipvs.ServerKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.find("DeleteServer", k); err != nil {
		return err
	}
	delete(m.servers, k)
	return nil
}

func (m requests) RealServers(k ipvs.ServerKey) ([]ipvs.RealServer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.find("RealServers", k)
	if err != nil {
		return nil, err
	}
	return slices.Collect(maps.Values(s.real)), nil
}

func (m requests) AddReal(k ipvs.ServerKey, r ipvs.RealServer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.find("AddReal", k)
	if err != nil {
		return err
	}
	if _, ok := s.real[r.Addr]; ok {
		return fmt.Errorf("ipvs: AddReal %s of %s: %w", r.Addr, k, fs.ErrExist)
	}
	if ip.Family(r.Addr.Addr()) != k.Family {
		return fmt.Errorf("ipvs: AddReal %s of %s: %w", r.Addr, k, syscall.EINVAL)
	}
	r.Active, r.Inactive = 0, 0
	s.real[r.Addr] = r
	return nil
}

func (m requests) SetReal(k ipvs.ServerKey, r ipvs.RealServer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.find("SetReal", k)
	if err != nil {
		return err
	}
	old, ok := s.real[r.Addr]
	if !ok {
		return fmt.Errorf("ipvs: SetReal %s of %s: %w", r.Addr, k, fs.ErrNotExist)
	}
	r.Active, r.Inactive = old.Active, old.Inactive
	s.real[r.Addr] = r
	return nil
}

func (m requests) DeleteReal(k ipvs.ServerKey, addr netip.AddrPort) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.find("DeleteReal", k)
	if err != nil {
		return err
	}
	if _, ok := s.real[addr]; !ok {
		return fmt.Errorf("ipvs: DeleteReal %s of %s: %w", addr, k, fs.ErrNotExist)
	}
	delete(s.real, addr)
	return nil
}

func (m requests) SetTimeouts(t ipvs.Timeouts) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.request("SetTimeouts", ipvs.ServerKey{}); err != nil {
		return err
	}
	now := m.current()
	m.timeouts = ipvs.Timeouts{TCP: orElse(t.TCP, now.TCP), TCPFin: orElse(t.TCPFin, now.TCPFin), UDP: orElse(t.UDP, now.UDP)}
	return nil
}

// ipvs.Timeouts implements [Kernel]. A new Memory has those of Linux.
func (m requests) Timeouts() (ipvs.Timeouts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.request("Timeouts", ipvs.ServerKey{}); err != nil {
		return ipvs.Timeouts{}, err
	}
	return m.current(), nil
}

func (m *Memory) current() ipvs.Timeouts {
	if m.timeouts == (ipvs.Timeouts{}) {
		return ipvs.Timeouts{TCP: 15 * time.Minute, TCPFin: 2 * time.Minute, UDP: 5 * time.Minute}
	}
	return m.timeouts
}

func orElse(d, other time.Duration) time.Duration {
	if d != 0 {
		return (d + time.Second - 1).Truncate(time.Second) // as the kernel is told
	}
	return other
}
