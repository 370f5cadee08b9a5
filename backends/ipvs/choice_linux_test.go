package ipvs_test

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// What the table in the documentation says of the choice: the scheduler makes it, not chance.
// Round robin gives each endpoint its exact share, a hash of the source sends a client to one.
func TestChoiceIsTheSchedulers(t *testing.T) {
	for scheduler, want := range map[string][]int{"rr": {4, 4, 4}, "sh": {12}} {
		t.Run(scheduler, func(t *testing.T) {
			lab := choiceLab(t)
			err := lab.Namespace(netlab.NodeName).Do(func() error {
				return syncChoice(t, ipvs.Options{Balance: ipvs.Balance{Scheduler: scheduler}})
			})
			if err != nil {
				t.Fatal(err)
			}
			got := make(map[netip.AddrPort]int)
			for range 12 {
				r, err := lab.Probe(netlab.Probe{From: "client", Destination: netip.MustParseAddrPort("10.96.0.10:80"), Protocol: corev1.ProtocolTCP})
				if err != nil || r.Outcome != netlab.Answered {
					t.Fatalf("Probe: %v, %v", r.Outcome, err)
				}
				got[r.Answer.Server]++
			}
			if shares := slices.Sorted(maps.Values(got)); !slices.Equal(shares, want) {
				t.Errorf("connections by endpoint are %v, want %v in some order", got, want)
			}
		})
	}
}

func choicePods() []netip.Addr {
	return []netip.Addr{netip.MustParseAddr("10.180.1.1"), netip.MustParseAddr("10.180.1.2"), netip.MustParseAddr("10.180.1.3")}
}

// choiceLab has a client, a node and three pods that answer.
func choiceLab(t *testing.T) *netlab.Lab {
	t.Helper()
	k, err := ipvs.Open()
	if err != nil {
		require(t, err)
	}
	lab, err := netlab.New(netlab.Options{
		Node:   []netip.Addr{netip.MustParseAddr("192.0.2.2")},
		Uplink: "client",
		Hosts: []netlab.Host{
			{Name: "client", Interface: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1")}},
			{Name: "pods", Interface: "eth1", Addresses: choicePods()},
		},
	})
	if err = errors.Join(err, k.Close()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, pod := range choicePods() {
		if err := lab.Serve(netip.AddrPortFrom(pod, 8080), corev1.ProtocolTCP); err != nil {
			t.Fatal(err)
		}
	}
	return lab
}

// syncChoice brings one Service with the three pods to a new Backend.
func syncChoice(t *testing.T, opts ipvs.Options) error {
	t.Helper()
	b, err := ipvs.New(opts)
	if err != nil {
		return err
	}
	t.Cleanup(func() {
		if closeErr := b.Close(); closeErr != nil {
			t.Error(closeErr)
		}
	})
	name := types.NamespacedName{Namespace: "ns1", Name: "web"}
	svc := &service.Service{Name: name, Ports: []service.Port{{Protocol: corev1.ProtocolTCP, Port: 80}}}
	svc.IPv4.ClusterIP = netip.MustParseAddr("10.96.0.10")
	var eps []endpoints.Endpoint
	for _, pod := range choicePods() {
		eps = append(eps, endpoints.Endpoint{Addr: netip.AddrPortFrom(pod, 8080), Ready: true, Serving: true, Weight: 1})
	}
	key := endpoints.Key{Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}
	p, _ := plan.New(plan.Config{Node: plan.Node{Name: "n1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.2")}}}).Update(plan.Input{
		Services:  map[types.NamespacedName]*service.Service{name: svc},
		Endpoints: map[types.NamespacedName]*endpoints.Set{name: endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{key: eps})},
	})
	_, err = b.Prepare(t.Context())
	return errors.Join(err, b.Sync(t.Context(), plan.Full(p)))
}
