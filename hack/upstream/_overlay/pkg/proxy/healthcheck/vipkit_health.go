package healthcheck

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// vipkitServers has vipkit's server beside each of upstream.
var vipkitServers sync.Map

func (hcs *server) vipkit() *shadow.HealthServer {
	s, _ := vipkitServers.LoadOrStore(hcs, shadow.NewHealthServer())
	return s.(*shadow.HealthServer)
}

// SyncServices gives the Services to both.
func (hcs *server) SyncServices(services map[types.NamespacedName]uint16) error {
	err := hcs.upstreamSyncServices(services)
	hcs.vipkit().Services(services, hcs.vipkitStates())
	return err
}

// SyncEndpoints gives the numbers of endpoints to both.
func (hcs *server) SyncEndpoints(counts map[types.NamespacedName]int) error {
	err := hcs.upstreamSyncEndpoints(counts)
	hcs.vipkit().Endpoints(counts, hcs.vipkitStates())
	return err
}

func (hcs *server) vipkitStates() []shadow.HealthState {
	hcs.lock.RLock()
	defer hcs.lock.RUnlock()
	var out []shadow.HealthState
	for _, s := range hcs.services {
		out = append(out, shadow.HealthState{Port: s.port, Endpoints: s.endpoints})
	}
	return out
}
