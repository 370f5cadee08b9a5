package proxy_test

import (
	"context"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// A rig is a Proxy with a fake backend that records its rounds.
type rig struct {
	*proxy.Proxy
	backend *fake.Backend
	start   time.Time

	mu      sync.Mutex
	starts  []time.Duration // when each round began, since the rig was made
	reasons []proxy.Reason
	rounds  []proxy.Round
	called  []time.Duration // when the backend was called
}

// node is the node of all rigs.
func node() plan.Node {
	return plan.Node{
		Name:      "n1",
		Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.10"), netip.MustParseAddr("2001:db8:1::10")},
		PodCIDRs:  []netip.Prefix{netip.MustParsePrefix("10.200.0.0/24"), netip.MustParsePrefix("fd00:200::/64")},
	}
}

func newRig(t *testing.T, change ...func(*proxy.Options)) *rig {
	t.Helper()
	r := &rig{backend: &fake.Backend{}, start: time.Now()}
	opts := proxy.Options{Backend: r.backend, Config: plan.Config{Node: node()}}
	for _, f := range change {
		f(&opts)
	}
	r.observe(&opts.Observer)
	p, err := proxy.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	r.Proxy = p
	t.Cleanup(func() {
		for _, v := range r.backend.Violations() {
			t.Errorf("violation: %s", v)
		}
	})
	return r
}

func (r *rig) observe(o *proxy.Observer) {
	o.RoundStarted = func(why proxy.Reason) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.starts = append(r.starts, time.Since(r.start))
		r.reasons = append(r.reasons, why)
	}
	o.RoundEnded = func(round proxy.Round) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if _, worked := round.Backend(); worked {
			r.called = append(r.called, r.starts[len(r.starts)-1])
		}
		r.rounds = append(r.rounds, round)
	}
}

// open opens both gates with empty lists.
func (r *rig) open() *rig {
	r.ReplaceServices(nil)
	r.ReplaceEndpointSlices(nil)
	return r
}

// step does a round that must succeed.
func (r *rig) step(t *testing.T) {
	t.Helper()
	if err := r.Step(t.Context()); err != nil {
		t.Fatalf("Step: %v", err)
	}
}

// run starts Run; stop ends it and returns its error. The test's end stops it too.
func (r *rig) run(t *testing.T) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return stop
}

// wantStarts checks when rounds began.
func (r *rig) wantStarts(t *testing.T, want ...time.Duration) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Equal(r.starts, want) {
		t.Errorf("rounds began at %v, want %v", r.starts, want)
	}
}

// last returns the last round.
func (r *rig) last(t *testing.T) proxy.Round {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.rounds) == 0 {
		t.Fatal("there was no round")
	}
	return r.rounds[len(r.rounds)-1]
}

// lastDelta returns what the backend was given last.
func (r *rig) lastDelta(t *testing.T) *plan.Delta {
	t.Helper()
	calls := r.backend.Calls()
	if len(calls) == 0 {
		t.Fatal("the backend was never called")
	}
	return calls[len(calls)-1].Delta
}

// wantInPlace checks that the backend has what the Proxy wants.
func (r *rig) wantInPlace(t *testing.T) {
	t.Helper()
	if got, want := r.backend.Plan().String(), r.Plan().String(); got != want {
		t.Errorf("in place:\n%s\nwanted:\n%s", got, want)
	}
}

// changed lists the keys of a Delta's changes as "namespace/name:port family".
func changed(d *plan.Delta) []string {
	var names []string
	for _, c := range d.Changes {
		names = append(names, c.Key.String()+" "+string(c.Key.Family))
	}
	return names
}

// dial returns what the data plane does with a TCP connection from a pod of this
// node to a Service address.
func (r *rig) dial(dst string) plan.Trace {
	return r.backend.Trace(plan.Packet{
		Source:      netip.MustParseAddr("10.200.0.99"),
		Destination: netip.MustParseAddrPort(dst),
		Protocol:    corev1.ProtocolTCP,
	})
}

// wantEndpoints checks where a connection goes; none means rejected.
func (r *rig) wantEndpoints(t *testing.T, dst string, want ...string) {
	t.Helper()
	trace := r.dial(dst)
	var got []string
	for _, e := range trace.Endpoints {
		got = append(got, e.String())
	}
	verdict := plan.Forward
	if len(want) == 0 {
		verdict = plan.Reject
	}
	if trace.Verdict != verdict || !slices.Equal(got, want) {
		t.Errorf("%s goes to %v (%v: %s), want %v", dst, got, trace.Verdict, trace.Reason, want)
	}
}

func name(n string) types.NamespacedName { return types.NamespacedName{Namespace: "ns1", Name: n} }

// key is the key of the only port of a Service made by svc.
func key(n string) plan.Key {
	return plan.Key{
		PortName: service.PortName{NamespacedName: name(n), Port: "http", Protocol: corev1.ProtocolTCP},
		Family:   corev1.IPv4Protocol,
	}
}

// svc returns a ClusterIP Service with port http 80/TCP.
func svc(n string, ips ...string) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: n},
		Spec: corev1.ServiceSpec{
			Type:       corev1.ServiceTypeClusterIP,
			ClusterIP:  ips[0],
			ClusterIPs: ips,
			Ports:      []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}
	for _, ip := range ips {
		family := corev1.IPv4Protocol
		if netip.MustParseAddr(ip).Is6() {
			family = corev1.IPv6Protocol
		}
		s.Spec.IPFamilies = append(s.Spec.IPFamilies, family)
	}
	return s
}

// slice returns the EndpointSlice n-1 of Service n with ready endpoints on port 8080.
func slice(n string, ips ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns1", Name: n + "-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: n},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: ptr("http"), Port: ptr(int32(8080)), Protocol: ptr(corev1.ProtocolTCP)}},
	}
	for _, ip := range ips {
		if netip.MustParseAddr(ip).Is6() {
			s.AddressType = discoveryv1.AddressTypeIPv6
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}})
	}
	return s
}

// triggered sets the time that caused the slice's last change.
func triggered(s *discoveryv1.EndpointSlice, at time.Time) *discoveryv1.EndpointSlice {
	s.Annotations = map[string]string{corev1.EndpointsLastChangeTriggerTime: at.Format(time.RFC3339Nano)}
	return s
}

func ptr[T any](v T) *T { return &v }
