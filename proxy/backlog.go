package proxy

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/service"
)

// A backlog is what was taken from the trackers and the Backend has not acknowledged: names only, to count them, and
// when the changes were caused. What has to be written is in the Backend's cursor. It is safe for concurrent use.
type backlog struct {
	mu        sync.Mutex
	services  map[types.NamespacedName]struct{}
	endpoints map[types.NamespacedName][]time.Time // oldest first, nil if no time is known
}

func newBacklog() *backlog {
	return &backlog{services: map[types.NamespacedName]struct{}{}, endpoints: map[types.NamespacedName][]time.Time{}}
}

// take takes what the trackers have, so that at every moment a change is in a tracker or in the backlog.
func (b *backlog) take(st *service.ServiceChangeTracker, et *endpoints.EndpointsChangeTracker) (service.Changes, endpoints.Changes) {
	b.mu.Lock()
	defer b.mu.Unlock()
	services, sets := st.Take(), et.Take()
	for name := range services.Services {
		b.services[name] = struct{}{}
	}
	for name := range sets.Sets {
		b.endpoints[name] = append(b.endpoints[name], sets.Triggers[name]...)
	}
	return services, sets
}

// size returns of how many Services something is in the backlog.
func (b *backlog) size() (services, endpoints int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.services), len(b.endpoints)
}

// pending is size with what the trackers have besides.
func (b *backlog) pending(st *service.ServiceChangeTracker, et *endpoints.EndpointsChangeTracker) (services, endpoints int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	services, endpoints = len(b.services), len(b.endpoints)
	for name := range st.Pending().Services {
		if _, ok := b.services[name]; !ok {
			services++
		}
	}
	for name := range et.Pending().Sets {
		if _, ok := b.endpoints[name]; !ok {
			endpoints++
		}
	}
	return services, endpoints
}

// acknowledge forgets all but what is about the Services in except. It returns when the changes of the others were caused.
// The maps are new ones: a map keeps the memory, and going through it the cost, of what it once held.
func (b *backlog) acknowledge(except []types.NamespacedName) map[types.NamespacedName][]time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	done := b.endpoints
	services := b.services
	b.services, b.endpoints = map[types.NamespacedName]struct{}{}, map[types.NamespacedName][]time.Time{}
	for _, name := range except {
		if _, ok := services[name]; ok {
			b.services[name] = struct{}{}
		}
		if times, ok := done[name]; ok {
			b.endpoints[name] = times
			delete(done, name)
		}
	}
	return done
}
