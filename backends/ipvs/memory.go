package ipvs

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

	"github.com/vipkit/vipkit/internal/ip"
)

// A Memory is a [Kernel] in memory, for tests and examples without one. It refuses what
// IPVS refuses. The zero value is ready to use.
type Memory struct {
	mu       sync.Mutex
	servers  map[ServerKey]*memoryServer
	timeouts Timeouts
	requests int
	fail     func(op string) error
}

var _ Kernel = (*Memory)(nil)

type memoryServer struct {
	VirtualServer

	real map[netip.AddrPort]RealServer
}

// memorySchedulers are those that a Memory has: those of Linux 6.1.
const memorySchedulers = " rr wrr lc wlc lblc lblcr sh dh sed nq mh fo ovf "

// Connect sets the connections that a real server has. The error is [fs.ErrNotExist] if it
// is not there.
func (m *Memory) Connect(k ServerKey, addr netip.AddrPort, active, inactive int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.servers[k.normal()]
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

// Requests returns how many methods of [Kernel] were called, Close aside.
func (m *Memory) Requests() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests
}

// Fail lets f decide before each request whether it fails, and how. Op is the name of the
// method of [Kernel]. F must not call the Memory; nil ends it.
func (m *Memory) Fail(f func(op string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = f
}

// request counts a request. The caller holds the lock.
func (m *Memory) request(op string) error {
	m.requests++
	if m.fail != nil {
		if err := m.fail(op); err != nil {
			return fmt.Errorf("ipvs: %s: %w", op, err)
		}
	}
	return nil
}

// find returns a virtual server. The caller holds the lock.
func (m *Memory) find(op string, k ServerKey) (*memoryServer, error) {
	if err := m.request(op); err != nil {
		return nil, err
	}
	s, ok := m.servers[k]
	if !ok {
		return nil, fmt.Errorf("ipvs: %s %s: %w", op, k, fs.ErrNotExist)
	}
	return s, nil
}

// Servers implements [Kernel].
func (m *Memory) Servers() ([]VirtualServer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.request("Servers"); err != nil {
		return nil, err
	}
	out := make([]VirtualServer, 0, len(m.servers))
	for _, s := range m.servers {
		out = append(out, s.VirtualServer)
	}
	return out, nil
}

// Server implements [Kernel].
func (m *Memory) Server(k ServerKey) (VirtualServer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.find("Server", k)
	if err != nil {
		return VirtualServer{}, err
	}
	return s.VirtualServer, nil
}

// AddServer implements [Kernel].
func (m *Memory) AddServer(v VirtualServer) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.request("AddServer"); err != nil {
		return err
	}
	if m.servers[v.ServerKey] != nil {
		return fmt.Errorf("ipvs: AddServer %s: %w", v.ServerKey, fs.ErrExist)
	}
	if err := checkScheduler("AddServer", &v); err != nil {
		return err
	}
	if m.servers == nil {
		m.servers = make(map[ServerKey]*memoryServer)
	}
	m.servers[v.ServerKey] = &memoryServer{VirtualServer: readBack(v), real: make(map[netip.AddrPort]RealServer)}
	return nil
}

// SetServer implements [Kernel].
func (m *Memory) SetServer(v VirtualServer) error {
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

func checkScheduler(op string, v *VirtualServer) error {
	if !strings.Contains(memorySchedulers, " "+v.Scheduler+" ") {
		return fmt.Errorf("ipvs: %s %s: %w", op, v.ServerKey, errNoScheduler(v.Scheduler))
	}
	return nil
}

// readBack returns what the kernel knows of v.
func readBack(v VirtualServer) VirtualServer {
	v.Real = nil
	v.Connectionless = v.Protocol == corev1.ProtocolUDP
	return v
}

// DeleteServer implements [Kernel].
func (m *Memory) DeleteServer(k ServerKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, err := m.find("DeleteServer", k); err != nil {
		return err
	}
	delete(m.servers, k)
	return nil
}

// RealServers implements [Kernel].
func (m *Memory) RealServers(k ServerKey) ([]RealServer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s, err := m.find("RealServers", k)
	if err != nil {
		return nil, err
	}
	return slices.Collect(maps.Values(s.real)), nil
}

// AddReal implements [Kernel].
func (m *Memory) AddReal(k ServerKey, r RealServer) error {
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

// SetReal implements [Kernel].
func (m *Memory) SetReal(k ServerKey, r RealServer) error {
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

// DeleteReal implements [Kernel].
func (m *Memory) DeleteReal(k ServerKey, addr netip.AddrPort) error {
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

// SetTimeouts implements [Kernel].
func (m *Memory) SetTimeouts(t Timeouts) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.request("SetTimeouts"); err != nil {
		return err
	}
	now := m.current()
	m.timeouts = Timeouts{TCP: orElse(t.TCP, now.TCP), TCPFin: orElse(t.TCPFin, now.TCPFin), UDP: orElse(t.UDP, now.UDP)}
	return nil
}

// Timeouts implements [Kernel]. A new Memory has those of Linux.
func (m *Memory) Timeouts() (Timeouts, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.request("Timeouts"); err != nil {
		return Timeouts{}, err
	}
	return m.current(), nil
}

func (m *Memory) current() Timeouts {
	if m.timeouts == (Timeouts{}) {
		return Timeouts{TCP: 15 * time.Minute, TCPFin: 2 * time.Minute, UDP: 5 * time.Minute}
	}
	return m.timeouts
}

func orElse(d, other time.Duration) time.Duration {
	if d != 0 {
		return wholeSeconds(d)
	}
	return other
}

// Close implements [Kernel] and does nothing.
func (m *Memory) Close() error { return nil }
