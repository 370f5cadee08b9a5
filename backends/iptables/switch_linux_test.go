package iptables_test

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/backends/iptables"
	"github.com/vipkit/vipkit/backends/nftables"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// newSwitchLab is a node with a pod and a client.
func newSwitchLab(t *testing.T) *netlab.Lab {
	t.Helper()
	lab, err := netlab.New(netlab.Options{
		Node: []netip.Addr{netip.MustParseAddr("192.0.2.10")}, Uplink: "client",
		Hosts: []netlab.Host{
			{Name: "client", Interface: "eth0", Addresses: []netip.Addr{netip.MustParseAddr("198.51.100.4")}},
			{Name: "pod", Interface: "veth0", Addresses: []netip.Addr{netip.MustParseAddr("10.200.1.1")}},
		},
	})
	if errors.Is(err, errors.ErrUnsupported) && os.Getenv("VIPKIT_REQUIRE_KERNEL") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := lab.Serve(netip.MustParseAddrPort("10.200.1.1:8080"), corev1.ProtocolTCP); err != nil {
		t.Fatal(err)
	}
	return lab
}

func switchPlan() *plan.Plan {
	web := types.NamespacedName{Namespace: "default", Name: "web"}
	p, _ := plan.New(plan.Config{Node: plan.Node{Name: "n1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.10")}}}).Update(plan.Input{
		Services: map[types.NamespacedName]*service.Service{web: {
			Name:  web,
			Ports: []service.Port{{Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
			IPv4:  service.Addresses{ClusterIP: netip.MustParseAddr("10.96.0.50")},
		}},
		Endpoints: map[types.NamespacedName]*endpoints.Set{web: endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{
			{Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}: {{Addr: netip.MustParseAddrPort("10.200.1.1:8080"), Ready: true, Serving: true, NodeName: "n1"}},
		})},
	})
	return p
}

// TestSwitchToNFTablesAndBack changes the backend of a node that serves connections. The
// new one starts before the old one is cleaned up.
func TestSwitchToNFTablesAndBack(t *testing.T) {
	for _, v := range []iptables.Variant{iptables.NFT, iptables.Legacy} {
		t.Run(string(v), func(t *testing.T) {
			lab := newSwitchLab(t)
			ipt, err := iptables.New(iptables.Options{Variant: v})
			if err != nil {
				t.Fatal(err)
			}
			nft, err := nftables.New(nftables.Options{})
			if err != nil {
				t.Fatal(err)
			}
			p := switchPlan()
			inNode(t, lab, func() error { return ipt.Sync(t.Context(), plan.Full(p)) })
			conns := openAll(t, lab)
			for _, step := range []struct {
				next, old backends.Backend
			}{{nft, ipt}, {ipt, nft}} {
				inNode(t, lab, func() error {
					return errors.Join(step.next.Sync(t.Context(), plan.Full(p)), step.old.Cleanup(t.Context()))
				})
				conns = append(conns, openAll(t, lab)...)
				for _, c := range conns {
					if err := c.Ping(5 * time.Second); err != nil {
						t.Errorf("a connection was cut: %v", err)
					}
				}
			}
			inNode(t, lab, func() error {
				out, err := exec.Command("nft", "list", "tables").CombinedOutput()
				if strings.Contains(string(out), "vipkit") {
					t.Errorf("nftables left:\n%s", out)
				}
				return errors.Join(err, ipt.Cleanup(t.Context()))
			})
			for _, c := range conns {
				c.Close()
			}
		})
	}
}

func inNode(t *testing.T, lab *netlab.Lab, f func() error) {
	t.Helper()
	if err := lab.Namespace(netlab.NodeName).Do(f); err != nil {
		t.Fatal(err)
	}
}

// openAll opens a connection to each frontend.
func openAll(t *testing.T, lab *netlab.Lab) []*netlab.Conn {
	t.Helper()
	var conns []*netlab.Conn
	for _, dst := range []string{"10.96.0.50:80", "192.0.2.10:30080"} {
		c, res, err := lab.Open(netlab.Probe{From: "client", Destination: netip.MustParseAddrPort(dst), Protocol: corev1.ProtocolTCP})
		if err != nil || c == nil {
			t.Fatalf("open %s: %s, %v", dst, res.Outcome, err)
		}
		conns = append(conns, c)
	}
	return conns
}
