package proxy

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/klog/v2"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// vipkitEvents is how many events a round of TestVipkitRandom has.
const vipkitEvents = 60

// TestVipkitRandom gives random objects to the trackers, and their contents to
// CategorizeEndpoints. The hooks compare.
func TestVipkitRandom(t *testing.T) {
	klog.LogToStderr(false)
	t.Cleanup(shadow.Random())
	for _, k := range shadow.Kinds() {
		t.Run(k.Name, func(t *testing.T) {
			g := shadow.NewGenerator(k.Options)
			for i := range shadow.Rounds(k.Rounds) {
				g.Options.Family = shadow.Family(i)
				newVipkitWorld(g).run()
			}
		})
	}
}

type vipkitWorld struct {
	g                *shadow.Generator
	node             string
	services         *ServiceChangeTracker
	endpoints        *EndpointsChangeTracker
	ports            ServicePortMap
	endpointsOfPorts EndpointsMap
	objects          map[string]*v1.Service
	slices           map[string]*discovery.EndpointSlice
}

func newVipkitWorld(g *shadow.Generator) *vipkitWorld {
	node := shadow.NodeName
	if g.Percent(5) {
		node = ""
	}
	return &vipkitWorld{
		g: g, node: node,
		services:  NewServiceChangeTracker(g.Options.Family, nil, nil),
		endpoints: NewEndpointsChangeTracker(g.Options.Family, node, nil, nil),
		ports:     ServicePortMap{}, endpointsOfPorts: EndpointsMap{},
		objects: map[string]*v1.Service{}, slices: map[string]*discovery.EndpointSlice{},
	}
}

func (w *vipkitWorld) run() {
	for range vipkitEvents {
		switch n := w.g.Intn(10); {
		case n < 3:
			w.service(n == 2)
		case n < 8:
			w.slice(n == 7)
		default:
			w.sync()
		}
	}
}

func (w *vipkitWorld) service(remove bool) {
	s := w.g.Service()
	old := w.objects[s.Name]
	switch {
	case !remove:
		w.services.Update(old, s)
		w.objects[s.Name] = s
	case old != nil:
		w.services.Update(old, nil)
		delete(w.objects, s.Name)
	}
}

func (w *vipkitWorld) slice(remove bool) {
	s := w.g.Slice()
	old := w.slices[s.Name]
	switch {
	case !remove:
		w.endpoints.EndpointSliceUpdate(s, false)
		w.slices[s.Name] = s
	case old != nil:
		w.endpoints.EndpointSliceUpdate(old, true)
		delete(w.slices, s.Name)
	}
}

func (w *vipkitWorld) sync() {
	w.ports.Update(w.services)
	w.endpointsOfPorts.Update(w.endpoints)
	labels := map[string]string{}
	if w.g.Percent(80) {
		labels[v1.LabelTopologyZone] = shadow.Zone
	}
	for name, p := range w.ports {
		CategorizeEndpoints(w.endpointsOfPorts[name], p, w.node, labels)
	}
}
