package conntrack_test

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/backends/conntrack"
	"github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// An agent is a Proxy with a Cleaner and two more consumers behind it.
type agent struct {
	*proxy.Proxy
	backend *fake.Backend
	table   *fakeTable
	order   []string
}

type consumer func(*plan.Delta) error

func (c consumer) Sync(_ context.Context, d *plan.Delta) error { return c(d) }

func newAgent(t *testing.T) *agent {
	t.Helper()
	a := &agent{backend: &fake.Backend{}, table: &fakeTable{flows: flows(clusterToA, nodeToA)}}
	cleaner := conntrack.New(conntrack.Options{Table: a.table})
	note := func(name string) proxy.Consumer {
		return proxy.Consumer{Name: name, Syncer: consumer(func(*plan.Delta) error {
			a.order = append(a.order, name)
			return nil
		})}
	}
	p, err := proxy.New(proxy.Options{
		Backend: a.backend,
		Consumers: []proxy.Consumer{{Name: "conntrack", Syncer: consumer(func(d *plan.Delta) error {
			a.order = append(a.order, "conntrack")
			return cleaner.Sync(t.Context(), d)
		})}, note("health"), note("user")},
		Config: plan.Config{Node: plan.Node{Name: "n1", Addresses: []netip.Addr{netip.MustParseAddr("192.168.0.2")}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	a.Proxy = p
	a.ReplaceServices([]*corev1.Service{dnsService(30053)})
	a.ReplaceEndpointSlices([]*discoveryv1.EndpointSlice{dnsSlice("10.180.0.1")})
	if err := a.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.table.want(t)
	a.order = nil
	return a
}

func (a *agent) wantOrder(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(a.order, want) {
		t.Errorf("called %q, want %q", a.order, want)
	}
	a.order = nil
}

func dnsService(nodePort int32) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "dns"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, ClusterIP: "10.96.0.10", ClusterIPs: []string{"10.96.0.10"},
			Ports: []corev1.ServicePort{{Name: "dns", Protocol: udp, Port: 53, NodePort: nodePort}},
		},
	}
}

func dnsSlice(ip string) *discoveryv1.EndpointSlice {
	name, port, protocol := "dns", int32(53), udp
	return &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "ns1", Name: "dns-1", Labels: map[string]string{discoveryv1.LabelServiceName: "dns"}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
		Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{ip}}},
	}
}

// The write of the rules fails once: nothing may be cleaned before they are in
// place, and everything after.
func TestBackendFailsOnce(t *testing.T) {
	tests := []struct {
		name   string
		change func(*agent)
		want   []string
	}{
		{"#5 #2 an endpoint is replaced", func(a *agent) { a.SetEndpointSlice(dnsSlice("10.180.0.2")) }, []string{clusterToA, nodeToA}},
		{"#5 #3 the Service is deleted", func(a *agent) { a.DeleteService(nsn("dns")) }, []string{clusterToA, nodeToA}},
		{"#5 #3 the node port changes", func(a *agent) { a.SetService(dnsService(30054)) }, []string{nodeToA}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := newAgent(t)
			a.backend.FailCall(1, errKernel)
			tt.change(a)
			if err := a.Step(t.Context()); !errors.Is(err, errKernel) {
				t.Fatalf("Step = %v, want %v", err, errKernel)
			}
			a.wantOrder(t)
			a.table.want(t)
			if err := a.Step(t.Context()); err != nil {
				t.Fatal(err)
			}
			a.wantOrder(t, "conntrack", "health", "user")
			a.table.want(t, tt.want...)
		})
	}
}

func TestCleaningFailsOnce(t *testing.T) {
	t.Run("I17 #5 the others go on, and the flows are cleaned in the next round", func(t *testing.T) {
		a := newAgent(t)
		reads := a.table.reads
		a.table.fail = map[int]error{reads + 1: syscall.ENOBUFS}
		a.SetEndpointSlice(dnsSlice("10.180.0.2"))
		if err := a.Step(t.Context()); !errors.Is(err, syscall.ENOBUFS) {
			t.Errorf("Step = %v, want ENOBUFS", err)
		}
		a.wantOrder(t, "conntrack", "health", "user")
		calls := len(a.backend.Calls())
		if err := a.Step(t.Context()); err != nil {
			t.Fatal(err)
		}
		a.wantOrder(t, "conntrack")
		a.table.want(t, clusterToA, nodeToA)
		if len(a.backend.Calls()) != calls {
			t.Error("the rules were written again")
		}
	})
}
