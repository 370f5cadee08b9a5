package shadow

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/healthcheck"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// areaHealth is the area of the servers on healthCheckNodePorts.
const areaHealth = "health-server"

// A HealthState is what upstream's server says on a port.
type HealthState struct {
	Port      uint16
	Endpoints int
}

// A HealthServer is vipkit's beside one of upstream. Its sockets are on other ports than they
// were asked for.
type HealthServer struct {
	server *healthcheck.Services
	ports  map[types.NamespacedName]uint16
	counts map[types.NamespacedName]int

	mu   sync.Mutex
	open map[string]string // port that was asked for: address that serves it
}

// NewHealthServer returns one without Services.
func NewHealthServer() *HealthServer {
	s := &HealthServer{open: map[string]string{}}
	loop := healthcheck.New(healthcheck.Options{}).Loop("upstream")
	loop.Updated()
	var err error
	s.server, err = healthcheck.NewServices(healthcheck.ServicesOptions{Loop: loop, Listen: s.listen})
	if err != nil {
		Differ(areaHealth, Unexplained, "%v", err)
	}
	return s
}

// listen opens any port instead.
func (s *HealthServer) listen(network, address string) (net.Listener, error) {
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	l, err := net.Listen(network, "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open[port] = l.Addr().String()
	return healthListener{Listener: l, closed: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.open, port)
	}}, nil
}

type healthListener struct {
	net.Listener
	closed func()
}

// Close implements net.Listener.
func (l healthListener) Close() error {
	l.closed()
	return l.Listener.Close()
}

func (s *HealthServer) addresses() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.open)
}

// Services gives vipkit the ports and compares which are open.
func (s *HealthServer) Services(ports map[types.NamespacedName]uint16, upstream []HealthState) {
	s.ports = maps.Clone(ports)
	maps.DeleteFunc(s.counts, func(name types.NamespacedName, _ int) bool { return ports[name] == 0 })
	s.sync()
	var theirs []string
	for _, u := range upstream {
		theirs = append(theirs, fmt.Sprint(u.Port))
	}
	slices.Sort(theirs)
	if ours := slices.Sorted(maps.Keys(s.addresses())); !slices.Equal(ours, theirs) {
		Differ(areaHealth, Unexplained, "open are %v upstream, %v for vipkit", theirs, ours)
		return
	}
	Agree(areaHealth)
}

// Endpoints gives vipkit the numbers of endpoints and compares what the ports answer.
func (s *HealthServer) Endpoints(counts map[types.NamespacedName]int, upstream []HealthState) {
	s.counts = maps.Clone(counts)
	s.sync()
	open := s.addresses()
	for _, u := range upstream {
		if err := u.ask(open[fmt.Sprint(u.Port)]); err != nil {
			Differ(areaHealth, Unexplained, "port %d: %v", u.Port, err)
			continue
		}
		Agree(areaHealth)
	}
}

// ask returns an error unless the address answers what upstream's server does.
func (u HealthState) ask(address string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	want := http.StatusServiceUnavailable
	if u.Endpoints > 0 {
		want = http.StatusOK
	}
	if weight := resp.Header.Get("X-Load-Balancing-Endpoint-Weight"); resp.StatusCode != want || weight != fmt.Sprint(u.Endpoints) {
		return fmt.Errorf("upstream has %d endpoints, vipkit answers %d with weight %q", u.Endpoints, resp.StatusCode, weight)
	}
	return nil
}

// sync gives vipkit a plan with Services and endpoints that make these ports and numbers.
func (s *HealthServer) sync() {
	in := plan.Input{Services: map[types.NamespacedName]*service.Service{}, Endpoints: map[types.NamespacedName]*endpoints.Set{}}
	names := slices.SortedFunc(maps.Keys(s.ports), func(a, b types.NamespacedName) int {
		return slices.Compare([]byte(a.String()), []byte(b.String()))
	})
	for i, name := range names {
		in.Services[name] = &service.Service{
			Name: name, HealthCheckNodePort: s.ports[name], ExternalLocal: true,
			Ports: []service.Port{{Name: "p", Protocol: corev1.ProtocolTCP, Port: 80}},
			IPv4:  service.Addresses{ClusterIP: netip.AddrFrom4([4]byte{10, 96, 0, byte(i + 1)})},
		}
	}
	for name, n := range s.counts {
		in.Endpoints[name] = localEndpoints(n)
	}
	cfg := plan.Config{
		Node:              plan.Node{Name: NodeName, Addresses: []netip.Addr{NodeIP()}},
		NodePortAddresses: plan.NodePortSelector{All: true},
	}
	p, _ := plan.New(cfg).Update(in)
	if err := s.server.Sync(context.Background(), plan.Full(p)); err != nil {
		Differ(areaHealth, Unexplained, "%v", errors.Unwrap(err))
	}
}

func localEndpoints(n int) *endpoints.Set {
	var list []endpoints.Endpoint
	for i := range n {
		addr := netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})
		list = append(list, endpoints.Endpoint{Addr: netip.AddrPortFrom(addr, 80), Ready: true, Serving: true, NodeName: NodeName})
	}
	key := endpoints.Key{Port: "p", Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}
	return endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{key: list})
}
