package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fakediscovery "k8s.io/client-go/discovery/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	fakebackend "github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A fakeCluster is an agent without a node that follows client-go's fake clientset.
type fakeCluster struct {
	*fake.Clientset
	agent *agent
	feed  *feed

	mu        sync.Mutex
	selectors map[string]string // of lists, by resource
}

// newFakeCluster makes the agent and starts nothing.
func newFakeCluster(t *testing.T, args []string, objects ...runtime.Object) *fakeCluster {
	t.Helper()
	c := &fakeCluster{Clientset: fake.NewClientset(objects...), selectors: map[string]string{}}
	c.serveCIDRs(true)
	c.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		r := a.(clienttesting.ListAction).GetListRestrictions()
		c.selectors[a.GetResource().Resource] = r.Labels.String() + " " + r.Fields.String()
		return false, nil, nil
	})
	opts, err := parseFlags(append(args, "-node-name", "node-1", "-source", "dir="+t.TempDir()), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if c.agent, err = newAgent(opts, t.Output(), slog.New(slog.NewTextHandler(t.Output(), nil))); err != nil {
		t.Fatal(err)
	}
	// Rounds go to a data plane in memory.
	c.agent.backend = &fakebackend.Backend{}
	options := c.agent.proxyOptions(&reporter{out: t.Output(), logger: c.agent.logger, metrics: c.agent.metrics, tuner: newTuner(tunerFlags{}, c.agent.logger)})
	options.Consumers, options.Observer.RoundEnded = nil, nil
	if c.agent.proxy, err = proxy.New(options); err != nil {
		t.Fatal(err)
	}
	c.feed = c.agent.feed()
	return c
}

func (c *fakeCluster) serveCIDRs(yes bool) {
	list := &metav1.APIResourceList{GroupVersion: "networking.k8s.io/v1"}
	if yes {
		list.APIResources = append(list.APIResources, metav1.APIResource{Name: "servicecidrs", Kind: "ServiceCIDR"})
	}
	c.Discovery().(*fakediscovery.FakeDiscovery).Resources = []*metav1.APIResourceList{list}
}

// start follows the cluster until the test ends.
func (c *fakeCluster) start(t *testing.T) {
	t.Helper()
	source := &cluster{client: c, node: "node-1", logger: c.agent.logger}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- source.follow(ctx, c.feed) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func (c *fakeCluster) delivered(t *testing.T) {
	t.Helper()
	eventually(t, func() bool { return isClosed(c.agent.delivered) }, func() string { return "the source does not deliver" })
}

// lists returns the selectors of the lists so far, by resource.
func (c *fakeCluster) lists() map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.selectors)
}

// watches returns how many resources are watched. A watch that is counted has begun.
func (c *fakeCluster) watches() int {
	resources := map[string]bool{}
	for _, a := range c.Actions() {
		if a.GetVerb() == "watch" {
			resources[a.GetResource().Resource] = true
		}
	}
	return len(resources)
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func webObjects() []runtime.Object {
	port, proto, name := int32(8080), corev1.ProtocolTCP, ""
	return []runtime.Object{
		&corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
			Spec: corev1.ServiceSpec{
				ClusterIP:  "10.96.0.10",
				ClusterIPs: []string{"10.96.0.10"},
				IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
				Ports:      []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
			},
		},
		&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "default", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
			},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Port: &port, Protocol: &proto, Name: &name}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{podOne}}},
		},
		node(),
		&networkingv1.ServiceCIDR{
			ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"},
			Spec:       networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.96.0.0/16"}},
		},
	}
}

func node(taints ...corev1.Taint) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{corev1.LabelTopologyZone: "z"}},
		Spec:       corev1.NodeSpec{Taints: taints},
		Status:     corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: nodeIP}}},
	}
}

func TestClusterDelivers(t *testing.T) {
	c := newFakeCluster(t, nil, webObjects()...)
	c.start(t)
	c.delivered(t)
	want := map[string]string{
		"services":       "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name spec.clusterIP!=None",
		"endpointslices": "!service.kubernetes.io/headless,!service.kubernetes.io/service-proxy-name ",
		"nodes":          " metadata.name=node-1",
		"servicecidrs":   " ",
	}
	if diff := cmp.Diff(want, c.lists()); diff != "" {
		t.Errorf("selectors (-want +got):\n%s", diff)
	}
	p := c.step(t)
	if got := p.Config().Node; got.Zone != "z" || !slices.Equal(got.Addresses, []netip.Addr{netip.MustParseAddr(nodeIP)}) {
		t.Errorf("node %+v", got)
	}
	c.expectTrace(t, "10.96.0.10:80", plan.Forward)
	c.expectTrace(t, "10.96.0.99:80", plan.Drop)
}

// step does one round without a data plane, and returns the plan.
func (c *fakeCluster) step(t *testing.T) *plan.Plan {
	t.Helper()
	if err := c.agent.proxy.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c.agent.proxy.Plan()
}

// expectTrace does rounds until the packet meets the verdict.
func (c *fakeCluster) expectTrace(t *testing.T, to string, want plan.Verdict) {
	t.Helper()
	var got plan.Trace
	eventually(t, func() bool {
		got = c.step(t).Trace(plan.Packet{
			Source:      netip.MustParseAddr("203.0.113.7"),
			Destination: netip.MustParseAddrPort(to),
			Protocol:    corev1.ProtocolTCP,
		})
		return got.Verdict == want
	}, func() string { return "packet to " + to + ": " + got.Verdict.String() + ", want " + want.String() })
}

func TestClusterFollows(t *testing.T) {
	c := newFakeCluster(t, nil, webObjects()...)
	c.start(t)
	c.delivered(t)
	c.expectTrace(t, "10.96.0.10:80", plan.Forward)

	slices := c.DiscoveryV1().EndpointSlices("default")
	if err := slices.Delete(t.Context(), "web-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.expectTrace(t, "10.96.0.10:80", plan.Reject)
	if err := c.CoreV1().Services("default").Delete(t.Context(), "web", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.expectTrace(t, "10.96.0.10:80", plan.Drop)
	if err := c.NetworkingV1().ServiceCIDRs().Delete(t.Context(), "kubernetes", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.expectTrace(t, "10.96.0.10:80", plan.Pass)
}

func TestClusterNode(t *testing.T) {
	c := newFakeCluster(t, nil, webObjects()...)
	nodes := c.CoreV1().Nodes()
	if err := nodes.Delete(t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.start(t)
	// The fake tells a watch nothing of what happened before it.
	eventually(t, func() bool { return c.agent.proxy.Step(t.Context()) != nil && c.watches() == 4 }, func() string { return "no watches" })
	if err := c.agent.proxy.Step(t.Context()); !errors.Is(err, proxy.ErrGated) {
		t.Errorf("Step without a Node: %v, want %v", err, proxy.ErrGated)
	}
	if _, err := nodes.Create(t.Context(), node(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.delivered(t)

	eligible := func(want bool) {
		t.Helper()
		eventually(t, func() bool { return c.feed.node.eligible() == want }, func() string { return fmt.Sprintf("eligible: %t", !want) })
	}
	eligible(true)
	leaving := node(corev1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule})
	if _, err := nodes.Update(t.Context(), leaving, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eligible(false)
	if _, err := nodes.Update(t.Context(), node(), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	eligible(true)
	if err := nodes.Delete(t.Context(), "node-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eligible(false)
	if got := c.step(t).Config().Node; got.Zone != "z" || len(got.Addresses) != 1 {
		t.Errorf("J.2 the node's values go with its object: %+v", got)
	}
}

func TestClusterWithoutNode(t *testing.T) {
	c := newFakeCluster(t, []string{"-node-ip", nodeIP})
	c.serveCIDRs(false) // an older API server
	c.start(t)
	c.delivered(t)
	if got := c.step(t).Config().Node.Name; got != "node-1" {
		t.Errorf("node %q", got)
	}
	if _, asked := c.lists()["servicecidrs"]; asked {
		t.Error("ServiceCIDRs are listed although the API server has none")
	}
}
