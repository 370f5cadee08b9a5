package backendtest

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A Proxy is a whole Service proxy that is judged from outside: it takes API objects instead of
// plans, and what counts is what happens to packets. [Command] is one that is a program. All
// methods are called in the network namespace of the node, on a locked thread, one at a time.
type Proxy interface {
	// Set hands over all objects that there are now, and starts the proxy if it does not run. Nothing
	// in s may be modified, and objects that did not change since the last call are the same pointers.
	// A proxy that cannot take over changed settings while it runs starts anew. See
	// [Config.Asynchronous] for when Set returns.
	Set(ctx context.Context, s State) error

	// Stop ends the proxy as a signal would, and leaves what it wrote. It may be called on a proxy that does
	// not run.
	Stop(ctx context.Context) error

	// Cleanup removes everything that the proxy wrote. It does not run then.
	Cleanup(ctx context.Context) error
}

// A State is what a [Proxy] shall make true.
type State struct {
	Settings Settings

	// Objects with the defaults of the API server, by namespace and name.
	Services       []*corev1.Service
	EndpointSlices []*discoveryv1.EndpointSlice
}

// Settings are what a proxy reads from its Node object and from its own configuration. The
// fields mean what those of the same names in [plan.Config] and [plan.Node] do.
type Settings struct {
	NodeName, Zone    string
	Addresses         []netip.Addr   // of the Node object, InternalIPs in order
	PodCIDRs          []netip.Prefix // of this node's pods, to tell them from others
	PodInterfaces     []string       // the same by interface, "veth-*" for all that begin so
	ServiceCIDRs      []netip.Prefix
	NodePortAddresses []string // as kube-proxy's flag: CIDRs, primary, localhost, all
	MasqueradeAll     bool
	DenyInvalidRanges bool
}

// Equal reports whether two settings are the same.
func (s Settings) Equal(o Settings) bool {
	return s.NodeName == o.NodeName && s.Zone == o.Zone && s.MasqueradeAll == o.MasqueradeAll && s.DenyInvalidRanges == o.DenyInvalidRanges &&
		slices.Equal(s.Addresses, o.Addresses) && slices.Equal(s.PodCIDRs, o.PodCIDRs) && slices.Equal(s.PodInterfaces, o.PodInterfaces) &&
		slices.Equal(s.ServiceCIDRs, o.ServiceCIDRs) && slices.Equal(s.NodePortAddresses, o.NodePortAddresses)
}

// Config returns the settings as those of a plan.
func (s Settings) Config() (plan.Config, error) {
	selector, err := plan.ParseNodePortSelector(s.NodePortAddresses)
	return plan.Config{
		Node:              plan.Node{Name: s.NodeName, Zone: s.Zone, Addresses: s.Addresses, PodCIDRs: s.PodCIDRs},
		PodInterfaces:     s.PodInterfaces,
		ServiceCIDRs:      s.ServiceCIDRs,
		NodePortAddresses: selector,
		MasqueradeAll:     s.MasqueradeAll,
		DenyInvalidRanges: s.DenyInvalidRanges,
	}, err
}

// outside makes a Backend of a Proxy: it gives it objects and does not look at the plan.
type outside struct {
	proxy   Proxy
	state   func() State
	settled func(ctx context.Context, set func(State) error) error
}

func (o *outside) Sync(ctx context.Context, _ *plan.Delta) error {
	return o.settled(ctx, func(marker State) error {
		s := o.state()
		s.Services = append(s.Services, marker.Services...)
		s.EndpointSlices = append(s.EndpointSlices, marker.EndpointSlices...)
		return o.proxy.Set(ctx, s)
	})
}

func (o *outside) Cleanup(ctx context.Context) error {
	if err := o.proxy.Stop(ctx); err != nil {
		return err
	}
	return o.proxy.Cleanup(ctx)
}

// Dump shows what the proxy made, if it can.
func (o *outside) Dump(ctx context.Context) string {
	if d, ok := o.proxy.(Dumper); ok {
		return d.Dump(ctx)
	}
	return ""
}

// keepService remembers an object with the API server's defaults, for proxies that take objects.
func (w *world) keepService(s *corev1.Service) {
	s = s.DeepCopy()
	defaultService(s)
	w.keptServices[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = s
}

// keepSlice is keepService for slices.
func (w *world) keepSlice(s *discoveryv1.EndpointSlice) {
	s = s.DeepCopy()
	defaultSlice(s)
	w.keptSlices[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}] = s
}

// defaultSlice fills in what the API server would have.
func defaultSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Name == nil {
			p.Name = new(string)
		}
		if p.Protocol == nil {
			tcp := corev1.ProtocolTCP
			p.Protocol = &tcp
		}
	}
}

// state returns the objects in order of their names.
func (w *world) state() State {
	s := State{Settings: w.settings}
	for _, name := range sortedNames(w.keptServices) {
		s.Services = append(s.Services, w.keptServices[name])
	}
	for _, name := range sortedNames(w.keptSlices) {
		s.EndpointSlices = append(s.EndpointSlices, w.keptSlices[name])
	}
	return s
}

func sortedNames[T any](m map[types.NamespacedName]T) []types.NamespacedName {
	names := make([]types.NamespacedName, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	return names
}

// defaultService fills in what the API server would have, as far as a proxy reads it.
func defaultService(s *corev1.Service) {
	spec := &s.Spec
	if spec.Type == "" {
		spec.Type = corev1.ServiceTypeClusterIP
	}
	if len(spec.ClusterIPs) == 0 && spec.ClusterIP != "" {
		spec.ClusterIPs = []string{spec.ClusterIP}
	}
	if spec.ClusterIP == "" && len(spec.ClusterIPs) > 0 {
		spec.ClusterIP = spec.ClusterIPs[0]
	}
	for i := range spec.Ports {
		if spec.Ports[i].Protocol == "" {
			spec.Ports[i].Protocol = corev1.ProtocolTCP
		}
	}
	defaultAffinity(spec)
	defaultPolicies(spec)
}

func defaultAffinity(spec *corev1.ServiceSpec) {
	if spec.SessionAffinity == "" {
		spec.SessionAffinity = corev1.ServiceAffinityNone
	}
	if spec.SessionAffinity == corev1.ServiceAffinityClientIP && spec.SessionAffinityConfig == nil {
		timeout := corev1.DefaultClientIPServiceAffinitySeconds
		spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
	}
}

func defaultPolicies(spec *corev1.ServiceSpec) {
	if spec.InternalTrafficPolicy == nil && spec.Type != corev1.ServiceTypeExternalName {
		policy := corev1.ServiceInternalTrafficPolicyCluster
		spec.InternalTrafficPolicy = &policy
	}
	external := spec.Type == corev1.ServiceTypeNodePort || spec.Type == corev1.ServiceTypeLoadBalancer || len(spec.ExternalIPs) > 0
	if external && spec.ExternalTrafficPolicy == "" {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
}
