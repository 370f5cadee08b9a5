// Package trackers compares what turns API objects into the desired state: kube-proxy's
// change trackers with their maps, and our trackers with the plan. Ours does more: the plan
// has the choice of endpoints and all rules, which kube-proxy computes while it writes.
package trackers

import (
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	kubeproxy "k8s.io/kubernetes/pkg/proxy"

	"github.com/vipkit/vipkit/bench/cluster"
	"github.com/vipkit/vipkit/bench/proxies"
	"github.com/vipkit/vipkit/bench/results"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// The steps.
const (
	Load = "everything comes in"
	Flip = "one endpoint flips"
)

// A follower turns events into state.
type follower interface {
	load(c *cluster.Cluster)
	update(before, after *discoveryv1.EndpointSlice)
}

func newFollower(proxy string) follower {
	if proxy == proxies.KubeProxy {
		return &theirs{
			services:   kubeproxy.NewServiceChangeTracker(corev1.IPv4Protocol, nil, nil),
			endpoints:  kubeproxy.NewEndpointsChangeTracker(corev1.IPv4Protocol, cluster.Node, nil, nil),
			ports:      kubeproxy.ServicePortMap{},
			byEndpoint: kubeproxy.EndpointsMap{},
		}
	}
	return &ours{
		services:  service.NewServiceChangeTracker(service.Options{}),
		endpoints: endpoints.NewEndpointsChangeTracker(endpoints.Options{}),
		plan:      plan.New(proxies.Config()),
	}
}

type theirs struct {
	services   *kubeproxy.ServiceChangeTracker
	endpoints  *kubeproxy.EndpointsChangeTracker
	ports      kubeproxy.ServicePortMap
	byEndpoint kubeproxy.EndpointsMap
}

func (t *theirs) load(c *cluster.Cluster) {
	for _, svc := range c.Services {
		t.services.Update(nil, svc)
	}
	for _, s := range c.Slices {
		t.endpoints.EndpointSliceUpdate(s, false)
	}
	t.ports.Update(t.services)
	t.byEndpoint.Update(t.endpoints)
}

func (t *theirs) update(_, after *discoveryv1.EndpointSlice) {
	t.endpoints.EndpointSliceUpdate(after, false)
	t.ports.Update(t.services)
	t.byEndpoint.Update(t.endpoints)
}

type ours struct {
	services  *service.ServiceChangeTracker
	endpoints *endpoints.EndpointsChangeTracker
	plan      *plan.Plan
}

func (o *ours) load(c *cluster.Cluster) {
	o.services.Replace(c.Services)
	o.endpoints.Replace(c.Slices)
	o.take()
}

func (o *ours) update(_, after *discoveryv1.EndpointSlice) {
	o.endpoints.Set(after)
	o.take()
}

func (o *ours) take() {
	svcs, eps := o.services.Take(), o.endpoints.Take()
	o.plan, _ = o.plan.Update(plan.Input{Services: svcs.Services, Endpoints: eps.Sets})
}

// A Bench is one follower that has seen a cluster.
type Bench struct {
	follower follower
	versions [2]*discoveryv1.EndpointSlice
	turn     int
}

// Measure lets a follower of the named proxy see c, and returns it and what that cost.
func Measure(proxy string, c *cluster.Cluster) (*Bench, results.Values) {
	b := &Bench{follower: newFollower(proxy)}
	middle := c.Slices[len(c.Slices)/2]
	b.versions = [2]*discoveryv1.EndpointSlice{middle, flipped(middle)}
	before := liveHeap()
	start := time.Now()
	b.follower.load(c)
	wall := time.Since(start)
	heap := liveHeap() - before
	return b, results.Values{results.Wall: wall.Seconds(), results.Heap: heap}
}

// Flip flips one endpoint n times and returns what one time costs on average.
func (b *Bench) Flip(n int) results.Values {
	runtime.GC()
	allocated := allocatedBytes()
	start := time.Now()
	for range n {
		b.turn++
		b.follower.update(b.versions[(b.turn+1)%2], b.versions[b.turn%2])
	}
	wall := time.Since(start)
	return results.Values{
		results.Wall:      wall.Seconds() / float64(n),
		results.Allocated: (allocatedBytes() - allocated) / float64(n),
	}
}

// flipped returns s with its first endpoint not ready.
func flipped(s *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	s = s.DeepCopy()
	no := false
	s.Endpoints[0].Conditions.Ready, s.Endpoints[0].Conditions.Serving = &no, &no
	return s
}

func liveHeap() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc)
}

func allocatedBytes() float64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.TotalAlloc)
}
