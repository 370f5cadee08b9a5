package healthcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/internal/bounded"
	"github.com/vipkit/vipkit/proxy/plan"
)

// ErrClosed is returned by [Services.Sync] after Close.
var ErrClosed = errors.New("closed")

// ServicesOptions configure [Services]. Only Loop is required.
type ServicesOptions struct {
	// Loop is that of the proxy whose plan is followed. A late loop of its Health makes
	// every Service answer 503.
	Loop *Loop

	// Listen opens the sockets. If nil, [net.Listen] does.
	Listen ListenFunc

	// RetryInterval is the time between two attempts to open sockets that could
	// not be opened, if no Sync comes in between. Zero means DefaultRetryInterval.
	RetryInterval time.Duration

	// MaxSockets bounds the sockets that are open at a time: one for each healthCheckNodePort and address that serves NodePorts. Each costs
	// a file descriptor and a goroutine. Sockets beyond it count as ones that cannot be opened. Zero means DefaultMaxSockets.
	MaxSockets int

	// OnChange is called when some socket of a Service cannot be opened, or not for
	// another reason than before, and with nil when all are open again;
	// nothing is said when the Service goes. For the error kube-proxy sends the event
	// FailedToStartServiceHealthcheck. OnChange must not call the Services. It may be nil.
	OnChange func(svc types.NamespacedName, err error)
}

// Services answers on the healthCheckNodePorts of the Services of a plan. It is a
// consumer of Deltas: package proxy takes it as it is. All methods are safe for
// concurrent use.
//
// It listens on the addresses that serve NodePorts, see [plan.NodePortAddresses]; in a family
// in which every address does, on the wildcard address. The endpoints of the address's family
// decide the answer, see [plan.Health.LocalFor]: a load balancer that asks on the IPv4
// address sends IPv4 packets.
//
// The answer is 200 if the Service has a ready endpoint on the node and no loop is late, else
// 503. The header X-Load-Balancing-Endpoint-Weight has the number of such endpoints,
// by distinct address. Path and method do not matter.
//
// Connections are bounded over all ports together as [Health.Serve] says of its own.
type Services struct {
	// Loop is that of the options: package proxy calls its Queued and Updated.
	*Loop

	opts ServicesOptions
	wait sync.WaitGroup // one for each socket that is served

	limiter limiter // of the connections of all ports

	mu      sync.Mutex
	closed  bool
	base    *plan.Plan // what the state below came from
	at      []listenAddress
	ports   map[types.NamespacedName]*port
	missing map[types.NamespacedName]struct{} // some socket of the port may not be open
	sockets int                               // of all ports
	retry   *time.Timer                       // runs if, and only if, a socket could not be opened
}

// NewServices returns Services that listen on nothing before the first Sync.
// Close ends them. It fails if opts has no Loop.
func NewServices(opts ServicesOptions) (*Services, error) {
	if opts.Loop == nil {
		return nil, errors.New("healthcheck: new services: Loop is nil")
	}
	if opts.Listen == nil {
		opts.Listen = net.Listen
	}
	opts.RetryInterval = cmp.Or(opts.RetryInterval, DefaultRetryInterval)
	opts.MaxSockets = cmp.Or(opts.MaxSockets, DefaultMaxSockets)
	return &Services{
		Loop:    opts.Loop,
		opts:    opts,
		ports:   map[types.NamespacedName]*port{},
		missing: map[types.NamespacedName]struct{}{},
	}, nil
}

// Sync makes ports and counts equal d.New. It does not wait for anybody. A socket that
// cannot be opened is no error: the others are, and that one is tried again in the next Sync
// and after RetryInterval. The only error is ErrClosed.
//
// Sockets that stay are not touched. All that go are closed before the first is
// opened, so a port can move from one Service to another.
func (s *Services) Sync(_ context.Context, d *plan.Delta) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fmt.Errorf("healthcheck: sync: %w", ErrClosed)
	}
	names, at := d.Health, listenAddresses(d.New)
	if d.Full || d.Base == nil || d.Base != s.base || !slices.Equal(s.at, at) {
		names = s.everything(d.New)
	}
	s.base, s.at = d.New, at
	for _, name := range names {
		s.want(d.New, name)
	}
	s.open()
	return nil
}

// everything returns all Services that have a port or shall have one.
func (s *Services) everything(p *plan.Plan) []types.NamespacedName {
	var names []types.NamespacedName
	for h := range p.AllHealth() {
		names = append(names, h.Name)
	}
	for name := range s.ports {
		if _, ok := p.Health(name); !ok {
			names = append(names, name)
		}
	}
	return names
}

// want records what the Service's port shall be, and closes what it shall not. It
// needs mu.
func (s *Services) want(p *plan.Plan, name types.NamespacedName) {
	h, ok := p.Health(name)
	now := s.ports[name]
	if now != nil && (!ok || now.number != h.Port) {
		now.close()
		delete(s.ports, name)
		delete(s.missing, name)
	}
	if !ok {
		return
	}
	if s.ports[name] == nil {
		next := newPort(name, h.Port, s.health, &s.sockets)
		if now != nil {
			next.err = now.err // as last told to OnChange
		}
		s.ports[name] = next
	}
	now = s.ports[name]
	now.state.Store(&h)
	now.closeExcept(s.at)
	s.missing[name] = struct{}{}
}

// open opens the sockets that may be missing. It goes by name: if several Services
// want one port, the first gets it. It needs mu.
func (s *Services) open() {
	byName := func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }
	for _, name := range slices.SortedFunc(maps.Keys(s.missing), byName) {
		p := s.ports[name]
		err := s.openPort(p)
		if err == nil {
			delete(s.missing, name)
		}
		if sameError(p.err, err) {
			continue
		}
		p.err = err
		if s.opts.OnChange != nil {
			s.opts.OnChange(name, err)
		}
	}
	s.schedule()
}

func sameError(a, b error) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return a.Error() == b.Error()
}

func (s *Services) openPort(p *port) error {
	var errs []error
	for _, at := range s.at {
		if p.sockets[at] != nil {
			continue
		}
		ln, err := s.listen(at.network(), netip.AddrPortFrom(at.addr, p.number).String())
		if err != nil && at.wildcard() && noSuchFamily(err) {
			continue // a host without IPv6 serves on IPv4
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("healthcheck: listen for %s: %w", p.name, err))
			continue
		}
		sock := &socket{server: newServer(p.at(at)), listener: s.limiter.listen(ln)}
		p.sockets[at] = sock
		s.sockets++
		s.wait.Go(func() {
			_ = sock.server.Serve(sock.listener)
			s.lost(p, at, sock)
		})
	}
	return bounded.Join(errs...)
}

// listen is the Listen of the options, unless too many sockets are open.
func (s *Services) listen(network, address string) (net.Listener, error) {
	if s.sockets >= s.opts.MaxSockets {
		return nil, fmt.Errorf("%s: %d sockets are open, no more may be", address, s.opts.MaxSockets)
	}
	return s.opts.Listen(network, address)
}

// lost is called when a socket is not served any more: if nobody wanted that, it
// is opened again.
func (s *Services) lost(p *port, at listenAddress, sock *socket) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.ports[p.name] != p || p.sockets[at] != sock {
		return
	}
	p.closeAt(at)
	s.missing[p.name] = struct{}{}
	s.schedule()
}

// schedule needs mu.
func (s *Services) schedule() {
	switch {
	case len(s.missing) == 0 && s.retry != nil:
		s.retry.Stop()
		s.retry = nil
	case len(s.missing) > 0 && s.retry == nil:
		s.retry = time.AfterFunc(s.opts.RetryInterval, s.again)
	}
}

// again is what the timer calls.
func (s *Services) again() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.retry = nil
	s.open()
}

// Close closes all sockets and waits until none is served. Connections are cut.
func (s *Services) Close() {
	s.mu.Lock()
	s.closed = true
	if s.retry != nil {
		s.retry.Stop()
	}
	for _, p := range s.ports {
		p.close()
	}
	clear(s.ports)
	clear(s.missing)
	s.mu.Unlock()
	s.wait.Wait()
}
