package main

import (
	"log/slog"
	"slices"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/examples/internal/nodeflags"
	"github.com/vipkit/vipkit/healthcheck"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A feed is where a source puts objects: into the proxy, counted.
type feed struct {
	proxy   *proxy.Proxy
	metrics *metrics
	flags   *nodeflags.Flags
	name    string // of the node
	node    *nodeState
	logger  *slog.Logger

	told []plan.Problem // of the node
	seen atomic.Bool    // there was a Node
}

func (a *agent) feed() *feed {
	return &feed{proxy: a.proxy, metrics: a.metrics, flags: a.opts.node, name: a.opts.name, node: a.node, logger: a.logger}
}

func (f *feed) setService(svc *corev1.Service) {
	f.metrics.serviceEvent()
	f.proxy.SetService(svc)
}

func (f *feed) deleteService(name types.NamespacedName) {
	f.metrics.serviceEvent()
	f.proxy.DeleteService(name)
}

func (f *feed) setSlice(slice *discoveryv1.EndpointSlice) {
	f.metrics.sliceEvent()
	f.proxy.SetEndpointSlice(slice)
}

func (f *feed) deleteSlice(name types.NamespacedName) {
	f.metrics.sliceEvent()
	f.proxy.DeleteEndpointSlice(name)
}

func (f *feed) setCIDR(cidr *networkingv1.ServiceCIDR) { f.proxy.SetServiceCIDR(cidr) }

func (f *feed) deleteCIDR(name types.NamespacedName) { f.proxy.DeleteServiceCIDR(name.Name) }

// setNode takes the Node object that the agent is for.
func (f *feed) setNode(node *corev1.Node) {
	f.node.set(healthcheck.Eligible(node))
	values, problems := f.flags.Node([]*corev1.Node{node})
	if slices.Equal(problems, f.told) {
		problems = nil // kubelet writes the object again and again
	} else {
		f.told = problems
	}
	for _, p := range problems {
		f.logger.Warn("left out", "object", p.Object, "field", p.Field, "problem", p.Err)
	}
	f.proxy.SetNode(values)
	f.seen.Store(true)
	f.open(gateNode)
}

// hasNode reports whether there was a Node.
func (f *feed) hasNode() bool { return f.seen.Load() }

// deleteNode keeps the values of the Node, as its pods and rules are still there,
// but no new load-balancer traffic should come.
func (f *feed) deleteNode() { f.node.set(false) }

// ready says that the source has delivered Services, slices and ranges once.
func (f *feed) ready() {
	f.open(proxy.GateServices)
	f.open(proxy.GateEndpointSlices)
}

// nodeReady says that there need not be a Node. One that comes says so by itself.
func (f *feed) nodeReady() { f.open(gateNode) }

func (f *feed) open(gate string) {
	if err := f.proxy.Open(gate); err != nil {
		f.logger.Error("cannot open a gate", "error", err) // a name that newAgent did not give
	}
}

// A nodeState is whether the node should get load-balancer traffic: yes, unless
// its Node object says otherwise. It is safe for concurrent use.
type nodeState struct {
	unfit atomic.Bool
}

func (s *nodeState) set(eligible bool) { s.unfit.Store(!eligible) }

func (s *nodeState) eligible() bool { return !s.unfit.Load() }
