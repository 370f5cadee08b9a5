package healthcheck

import (
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/proxy/plan"
)

// headerWeight tells load balancers that can weigh nodes how many endpoints are here.
const headerWeight = "X-Load-Balancing-Endpoint-Weight"

// A port is the healthCheckNodePort of one Service. The mutex of Services guards all but
// what answer reads.
type port struct {
	name    types.NamespacedName
	number  uint16
	health  *Health
	state   atomic.Pointer[plan.Health] // nil as soon as the port is given up
	sockets map[listenAddress]*socket
	opened  *int  // counts the sockets of all ports
	err     error // why some socket is not open
}

// A socket is one address at which a port is served.
type socket struct {
	server   *http.Server
	listener net.Listener
}

func newPort(name types.NamespacedName, number uint16, h *Health, opened *int) *port {
	return &port{name: name, number: number, health: h, opened: opened, sockets: map[listenAddress]*socket{}}
}

// serviceAnswer is the body. The order of the keys is kube-proxy's.
type serviceAnswer struct {
	Service             serviceName `json:"service"`
	LocalEndpoints      int         `json:"localEndpoints"`
	ServiceProxyHealthy bool        `json:"serviceProxyHealthy"`
}

type serviceName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// at returns what answers at one address. The family of the address decides which
// endpoints count.
func (p *port) at(a listenAddress) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { p.answer(w, a) })
}

// answer answers for the Service. A request that comes in while the port is being
// closed is answered 503.
func (p *port) answer(w http.ResponseWriter, at listenAddress) {
	a := serviceAnswer{
		Service:             serviceName{p.name.Namespace, p.name.Name},
		ServiceProxyHealthy: p.health.Report().Healthy,
	}
	if s := p.state.Load(); s != nil {
		a.LocalEndpoints = len(s.LocalFor(ip.Family(at.addr)))
	}
	code := http.StatusServiceUnavailable
	if a.LocalEndpoints > 0 && a.ServiceProxyHealthy {
		code = http.StatusOK
	}
	body, err := json.MarshalIndent(a, "", "\t")
	if err != nil {
		code = http.StatusInternalServerError
	}
	w.Header().Set(headerWeight, strconv.Itoa(a.LocalEndpoints))
	writeJSON(w, code, body)
}

// closeExcept closes the sockets that are not at one of the addresses.
func (p *port) closeExcept(at []listenAddress) {
	for a := range p.sockets {
		if !slices.Contains(at, a) {
			p.closeAt(a)
		}
	}
}

func (p *port) closeAt(a listenAddress) {
	// Errors do not matter: the socket is gone either way. The server closes the listener
	// by itself only once its goroutine runs, and the port is wanted at once.
	_ = p.sockets[a].server.Close()
	_ = p.sockets[a].listener.Close()
	delete(p.sockets, a)
	*p.opened--
}

func (p *port) close() {
	p.state.Store(nil)
	p.closeExcept(nil)
}
