package allocator_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/allocator"
)

// Policies in the short form of the tables: "", S, P, R.
func policy(short string) *corev1.IPFamilyPolicy {
	p, ok := map[string]corev1.IPFamilyPolicy{
		"S": corev1.IPFamilyPolicySingleStack,
		"P": corev1.IPFamilyPolicyPreferDualStack,
		"R": corev1.IPFamilyPolicyRequireDualStack,
	}[short]
	if !ok {
		return nil
	}
	return &p
}

// families reads "4", "6", "46", "64", or "" for none.
func families(short string) []corev1.IPFamily {
	var out []corev1.IPFamily
	for _, c := range short {
		out = append(out, corev1.IPFamily("IPv"+string(c)))
	}
	return out
}

// shortFamilies is policy and families in the form of the tables: "P/46".
func shortFamilies(svc *corev1.Service) string {
	out := "nil/"
	if p := svc.Spec.IPFamilyPolicy; p != nil {
		out = string(*p)[:1] + "/"
	}
	for _, f := range svc.Spec.IPFamilies {
		out += strings.TrimPrefix(string(f), "IPv")
	}
	return out
}

// An edit changes a Service.
type edit func(*corev1.Service)

// service returns the Service ns1/web of type ClusterIP and port 80 with edits.
func service(edits ...edit) *corev1.Service {
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
	return with(svc, edits...)
}

// with returns a copy of svc with edits.
func with(svc *corev1.Service, edits ...edit) *corev1.Service {
	svc = svc.DeepCopy()
	for _, e := range edits {
		e(svc)
	}
	return svc
}

func named(name string) edit           { return func(s *corev1.Service) { s.Name = name } }
func ofType(t corev1.ServiceType) edit { return func(s *corev1.Service) { s.Spec.Type = t } }
func withPolicy(short string) edit {
	return func(s *corev1.Service) { s.Spec.IPFamilyPolicy = policy(short) }
}

func withFamilies(short string) edit {
	return func(s *corev1.Service) { s.Spec.IPFamilies = families(short) }
}
func noSelector(s *corev1.Service) { s.Spec.Selector = nil }
func headless(s *corev1.Service)   { s.Spec.ClusterIP, s.Spec.ClusterIPs = "None", []string{"None"} }
func autoNodePorts(on bool) edit {
	return func(s *corev1.Service) { s.Spec.AllocateLoadBalancerNodePorts = &on }
}
func healthPort(n int32) edit  { return func(s *corev1.Service) { s.Spec.HealthCheckNodePort = n } }
func withUID(text string) edit { return func(s *corev1.Service) { s.UID = types.UID(text) } }

// withIPs sets clusterIPs and clusterIP.
func withIPs(ips ...string) edit {
	return func(s *corev1.Service) {
		s.Spec.ClusterIPs, s.Spec.ClusterIP = ips, ""
		if len(ips) > 0 {
			s.Spec.ClusterIP = ips[0]
		}
	}
}

func localPolicy(s *corev1.Service) {
	s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
}

// withPorts reads "53/TCP=30053", "53/UDP", or "dns:53/UDP" with a name. Where
// there are several, each has one: by default its number and protocol.
func withPorts(texts ...string) edit {
	return func(s *corev1.Service) {
		s.Spec.Ports = nil
		for _, text := range texts {
			var sp corev1.ServicePort
			name, rest, ok := strings.Cut(text, ":")
			if ok {
				sp.Name, text = name, rest
			}
			use, number, _ := strings.Cut(text, "=")
			_, _ = fmt.Sscan(number, &sp.NodePort) // it stays 0 if there is none
			port, protocol, _ := strings.Cut(use, "/")
			_, _ = fmt.Sscan(port, &sp.Port)
			sp.Protocol = corev1.Protocol(protocol)
			if !ok && len(texts) > 1 {
				sp.Name = strings.ToLower(port + "-" + protocol)
			}
			s.Spec.Ports = append(s.Spec.Ports, sp)
		}
	}
}

// nodePorts returns the node ports of svc in order.
func nodePorts(svc *corev1.Service) []int32 {
	var out []int32
	for _, sp := range svc.Spec.Ports {
		out = append(out, sp.NodePort)
	}
	return out
}

// A cluster is a set of pools, and a store of Services that never fails.
type cluster struct {
	config   allocator.ClusterConfig
	services *allocator.Services
	v4, v6   *allocator.Pool
	ports    *allocator.PortPool
}

// newCluster returns an empty cluster of the families in short form, with lowest
// first pools so that results can be stated: .17, ::11, 30086.
func newCluster(t *testing.T, short string) *cluster {
	t.Helper()
	opts := allocator.Options{Lowest: true}
	c := &cluster{
		config:   allocator.ClusterConfig{Families: families(short)},
		services: &allocator.Services{Addresses: map[corev1.IPFamily]allocator.Source[netip.Addr]{}},
		v4:       newPool(t, "10.96.0.0/24", opts),
		v6:       newPool(t, "fd00:10:96::/120", opts),
		ports:    newPorts(t, "30000-32767", opts),
	}
	all := map[corev1.IPFamily]*allocator.Pool{v4: c.v4, v6: c.v6}
	for _, f := range c.config.Families {
		c.services.Addresses[f] = all[f].Source()
	}
	c.services.Ports = c.ports.Source()
	return c
}

// state lists everything that is in use.
func (c *cluster) state() string {
	var out []string
	for a, o := range c.v4.All() {
		out = append(out, fmt.Sprint(a, "=", o))
	}
	for a, o := range c.v6.All() {
		out = append(out, fmt.Sprint(a, "=", o))
	}
	for p, o := range c.ports.All() {
		out = append(out, fmt.Sprint(p, "=", o))
	}
	return strings.Join(out, " ")
}

// used is the counts in the form of the tables: "v4/v6", and of ports.
func (c *cluster) used() (addresses string, ports uint64) {
	return fmt.Sprintf("%d/%d", c.v4.Stats().Used, c.v6.Stats().Used), c.ports.Stats().Used
}

// plan plans a change that must be valid.
func (c *cluster) plan(t *testing.T, before, after *corev1.Service) *allocator.ServicePlan {
	t.Helper()
	plan, errs := allocator.Plan(before, after, c.config)
	if errs != nil {
		t.Fatalf("Plan: %v", errs)
	}
	return plan
}

// begin plans a change and applies it.
func (c *cluster) begin(t *testing.T, before, after *corev1.Service) *allocator.Txn {
	t.Helper()
	txn, err := c.services.Apply(t.Context(), c.plan(t, before, after))
	if err != nil {
		t.Fatalf("Apply: %v", err)
	}
	return txn
}

// change carries a change out and returns what is stored then.
func (c *cluster) change(t *testing.T, before, after *corev1.Service) *corev1.Service {
	t.Helper()
	txn := c.begin(t, before, after)
	svc := txn.Service()
	if err := txn.Commit(t.Context()); err != nil {
		t.Fatalf("Commit: %v", err)
	}
	return svc
}

// paths returns the fields that a plan claims values for, in order.
func paths(plan *allocator.ServicePlan) []string {
	var out []string
	for _, c := range plan.Claims {
		out = append(out, c.Path.String())
	}
	return out
}

// A brokenSource fails or panics at the n-th claim or pick over all sources that
// share its counter.
type brokenSource[T any] struct {
	allocator.Source[T]
	countdown *int
	err       error // nil: panic
}

func (s brokenSource[T]) trip() error {
	if *s.countdown--; *s.countdown != 0 {
		return nil
	}
	if s.err == nil {
		panic("broken source")
	}
	return s.err
}

func (s brokenSource[T]) Claim(ctx context.Context, v T, o allocator.Owner) error {
	if err := s.trip(); err != nil {
		return err
	}
	return s.Source.Claim(ctx, v, o)
}

func (s brokenSource[T]) Pick(ctx context.Context, o allocator.Owner) (T, error) {
	if err := s.trip(); err != nil {
		var zero T
		return zero, err
	}
	return s.Source.Pick(ctx, o)
}

// broken returns the services of c, of which the n-th claim fails with err, or
// panics if err is nil.
func (c *cluster) broken(n int, err error) *allocator.Services {
	s := &allocator.Services{Addresses: maps.Clone(c.services.Addresses)}
	for _, f := range slices.Collect(maps.Keys(s.Addresses)) {
		s.Addresses[f] = brokenSource[netip.Addr]{s.Addresses[f], &n, err}
	}
	s.Ports = brokenSource[uint16]{c.services.Ports, &n, err}
	return s
}
