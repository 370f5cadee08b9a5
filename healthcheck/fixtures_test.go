package healthcheck_test

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/healthcheck"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// A host is a network in memory on which ports can be taken.
type host struct {
	mu    sync.Mutex
	open  map[string]*listener // "tcp4 192.0.2.10:31000"
	taken map[string]error     // what Listen fails with, by address
	opens int                  // calls of Listen that succeeded
}

func newHost() *host { return &host{open: map[string]*listener{}, taken: map[string]error{}} }

func (h *host) listen(network, address string) (net.Listener, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.taken[address]; err != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: err}
	}
	key := network + " " + address
	if h.open[key] != nil {
		return nil, &net.OpError{Op: "listen", Net: network, Err: syscall.EADDRINUSE}
	}
	l := &listener{host: h, key: key, conns: make(chan net.Conn), done: make(chan struct{})}
	h.open[key] = l
	h.opens++
	return l, nil
}

// take makes Listen fail at an address; nil frees it.
func (h *host) take(address string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken[address] = err
}

// want checks which sockets are open, as "tcp4 192.0.2.10:31000".
func (h *host) want(t *testing.T, want ...string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	var got []string
	for key := range h.open {
		got = append(got, key)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("open are %q, want %q", got, want)
	}
}

func (h *host) dial(_ context.Context, network, address string) (net.Conn, error) {
	return h.dialFrom("198.51.100.1", network, address)
}

// dialFrom connects as the client with an address.
func (h *host) dialFrom(source, network, address string) (net.Conn, error) {
	h.mu.Lock()
	var l *listener
	for key, open := range h.open {
		if strings.HasSuffix(key, " "+address) {
			l = open
		}
	}
	h.mu.Unlock()
	if l == nil {
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	client, server := net.Pipe()
	select {
	case l.conns <- remote{server, net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(source), 40000))}:
		return client, nil
	case <-l.done:
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
}

// A reply is what a server said.
type reply struct {
	code   int
	header http.Header
	body   string
}

// ask sends one request to an address of the host.
func (h *host) ask(t *testing.T, method, url string) reply {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DialContext: h.dial, DisableKeepAlives: true}}
	return ask(t, &client, method, url)
}

func ask(t *testing.T, client *http.Client, method, url string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(body)}
}

// wantWeight checks code and number of endpoints of a Service's answer.
func (h *host) wantWeight(t *testing.T, address string, code int, weight string) {
	t.Helper()
	r := h.ask(t, http.MethodGet, "http://"+address+"/")
	if got := r.header.Get("X-Load-Balancing-Endpoint-Weight"); r.code != code || got != weight {
		t.Errorf("%s answers %d with weight %q, want %d and %q", address, r.code, got, code, weight)
	}
}

// A remote is a connection that comes from an address.
type remote struct {
	net.Conn
	from net.Addr
}

func (r remote) RemoteAddr() net.Addr { return r.from }

type listener struct {
	host  *host
	key   string
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *listener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *listener) Close() error {
	l.once.Do(func() {
		close(l.done)
		l.host.mu.Lock()
		defer l.host.mu.Unlock()
		delete(l.host.open, l.key)
	})
	return nil
}

func (l *listener) Addr() net.Addr { return &net.TCPAddr{} }

// A world is the input of a plan.
type world struct {
	cfg plan.Config
	in  plan.Input
}

// newWorld is node n1, which serves NodePorts on its primary addresses.
func newWorld() *world {
	return &world{
		cfg: plan.Config{Node: plan.Node{Name: "n1", Addresses: []netip.Addr{
			netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("2001:db8:1::10"), netip.MustParseAddr("203.0.113.10"),
		}}},
		in: plan.Input{Services: map[types.NamespacedName]*service.Service{}, Endpoints: map[types.NamespacedName]*endpoints.Set{}},
	}
}

// svc sets Service ns1/n with a health-check port and endpoints on this node, as
// "10.200.0.1" for a ready one, with " T", " P" or " remote" behind it otherwise.
func (w *world) svc(n string, port uint16, local ...string) *world {
	name := nsn(n)
	w.in.Services[name] = &service.Service{
		Name: name, ExternalLocal: true, HealthCheckNodePort: port,
		Ports: []service.Port{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}, {Name: "https", Protocol: corev1.ProtocolTCP, Port: 443}},
		IPv4:  service.Addresses{ClusterIP: netip.AddrFrom4([4]byte{10, 96, 0, n[0]})},
	}
	lists := map[endpoints.Key][]endpoints.Endpoint{}
	for _, text := range local {
		for port, number := range map[string]uint16{"http": 8080, "https": 8443} {
			e := endpoint(text, number)
			k := endpoints.Key{Port: port, Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}
			if e.Addr.Addr().Is6() {
				k.Family = corev1.IPv6Protocol
			}
			lists[k] = append(lists[k], e)
		}
	}
	w.in.Endpoints[name] = endpoints.NewSet(lists)
	return w
}

func endpoint(text string, port uint16) endpoints.Endpoint {
	addr, state, _ := strings.Cut(text, " ")
	e := endpoints.Endpoint{
		Addr:  netip.AddrPortFrom(netip.MustParseAddr(addr), port),
		Ready: state != "T", Serving: true, Terminating: state == "T" || state == "P", NodeName: "n1", Weight: 1,
	}
	if state == "remote" {
		e.NodeName = "n2"
	}
	return e
}

// dual gives Service web the other family, too.
func (w *world) dual() *world {
	w.in.Services[nsn("web")].IPv6.ClusterIP = netip.MustParseAddr("fd00:96::1")
	return w
}

func (w *world) without(n string) *world {
	delete(w.in.Services, nsn(n))
	delete(w.in.Endpoints, nsn(n))
	return w
}

func (w *world) plan() *plan.Plan {
	p, _ := plan.New(w.cfg).Update(w.in)
	return p
}

func nsn(n string) types.NamespacedName { return types.NamespacedName{Namespace: "ns1", Name: n} }

// A rig is Services on a host, fed by a world.
type rig struct {
	*healthcheck.Services
	*host
	*world
	health *healthcheck.Health
	cursor plan.Cursor
	last   *plan.Plan

	maxSockets int

	mu      sync.Mutex
	changes []string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{host: newHost(), world: newWorld(), health: healthcheck.New(healthcheck.Options{})}
	r.start(t)
	return r
}

// start makes the Services anew, as a program does that builds its proxy again.
func (r *rig) start(t *testing.T) {
	t.Helper()
	s, err := healthcheck.NewServices(healthcheck.ServicesOptions{
		Loop: r.health.Loop("vipkit"), Listen: r.listen, MaxSockets: r.maxSockets,
		OnChange: func(svc types.NamespacedName, err error) {
			r.mu.Lock()
			defer r.mu.Unlock()
			text := svc.Name + ": ok"
			if err != nil {
				text = svc.Name + ": " + err.Error()
			}
			r.changes = append(r.changes, text)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	r.Services, r.cursor, r.last = s, plan.Cursor{}, nil
}

// sync gives the world to the Services as the next Delta.
func (r *rig) sync(t *testing.T) {
	t.Helper()
	next := r.plan()
	if r.last != nil { // everything may have changed: let the cursor find out
		names := map[types.NamespacedName]struct{}{}
		for _, p := range []*plan.Plan{r.last, next} {
			for h := range p.AllHealth() {
				names[h.Name] = struct{}{}
			}
		}
		var diff plan.Diff
		for name := range names {
			diff.Health = append(diff.Health, name)
		}
		r.cursor.Note(diff)
	}
	r.last = next
	d := r.cursor.Delta(next)
	if d == nil {
		return
	}
	err := r.Sync(t.Context(), d)
	r.cursor.Done(d, err)
	if err != nil {
		t.Errorf("Sync: %v", err)
	}
}

// wantChanges checks what was told since the last call.
func (r *rig) wantChanges(t *testing.T, want ...string) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.changes, want) {
		t.Errorf("told %q, want %q", r.changes, want)
	}
	r.changes = nil
}

func decode(t *testing.T, body string) map[string]any {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("body %q: %v", body, err)
	}
	return m
}
