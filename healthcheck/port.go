package healthcheck

import (
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"
)

// headerWeight tells load balancers that can weigh nodes how many endpoints are here.
const headerWeight = "X-Load-Balancing-Endpoint-Weight"

// A port is the healthCheckNodePort of one Service. The mutex of Services guards all but
// what ServeHTTP reads.
type port struct {
	name    types.NamespacedName
	number  uint16
	health  *Health
	local   atomic.Int64 // ready endpoints on the node; 0 as soon as the port is given up
	sockets map[listenAddress]*socket
	err     error // why some socket is not open
}

// A socket is one address at which a port is served.
type socket struct {
	server   *http.Server
	listener net.Listener
}

func newPort(name types.NamespacedName, number uint16, h *Health) *port {
	return &port{name: name, number: number, health: h, sockets: map[listenAddress]*socket{}}
}

// serviceAnswer is the body. The order of the keys is kube-proxy's.
type serviceAnswer struct {
	Service             serviceName `json:"service"`
	LocalEndpoints      int64       `json:"localEndpoints"`
	ServiceProxyHealthy bool        `json:"serviceProxyHealthy"`
}

type serviceName struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// ServeHTTP answers for the Service. A request that comes in while the port is being
// closed is answered 503.
func (p *port) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	a := serviceAnswer{
		Service:             serviceName{p.name.Namespace, p.name.Name},
		LocalEndpoints:      p.local.Load(),
		ServiceProxyHealthy: p.health.Report().Healthy,
	}
	code := http.StatusServiceUnavailable
	if a.LocalEndpoints > 0 && a.ServiceProxyHealthy {
		code = http.StatusOK
	}
	body, err := json.MarshalIndent(a, "", "\t")
	if err != nil {
		code = http.StatusInternalServerError
	}
	w.Header().Set(headerWeight, strconv.FormatInt(a.LocalEndpoints, 10))
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
}

func (p *port) close() {
	p.local.Store(0)
	p.closeExcept(nil)
}
