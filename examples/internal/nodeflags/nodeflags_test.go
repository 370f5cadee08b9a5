package nodeflags_test

import (
	"errors"
	"flag"
	"io"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/examples/internal/nodeflags"
	"github.com/vipkit/vipkit/proxy/plan"
)

func parse(t *testing.T, args ...string) *nodeflags.Flags {
	t.Helper()
	fs := flag.NewFlagSet("test", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	f := nodeflags.Register(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatalf("Parse(%q): %v", args, err)
	}
	return f
}

func node(name, zone string, addresses ...corev1.NodeAddress) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}},
		Status:     corev1.NodeStatus{Addresses: addresses},
	}
}

func internal(ip string) corev1.NodeAddress {
	return corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip}
}

func addrs(texts ...string) []netip.Addr {
	var list []netip.Addr
	for _, s := range texts {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

func prefixes(texts ...string) []netip.Prefix {
	var list []netip.Prefix
	for _, s := range texts {
		list = append(list, netip.MustParsePrefix(s))
	}
	return list
}

var compareAddresses = cmp.Options{cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{}), cmpopts.EquateEmpty()}

func TestNode(t *testing.T) {
	nodes := []*corev1.Node{
		node("b", "zb", internal("192.0.2.2")),
		node("a", "za", corev1.NodeAddress{Type: corev1.NodeHostName, Address: "a"}, internal("010.0.0.5"), internal("fd00::5"),
			corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: "203.0.113.5"}, internal("10.0.0.6"), internal("bogus")),
	}
	bogus := []plan.Problem{{Object: "Node a", Field: "status.addresses[5].address", Err: `Invalid value: "bogus": must be an IP address`}}
	tests := []struct {
		name     string
		args     []string
		want     plan.Node
		problems []plan.Problem
	}{
		{
			"object",
			[]string{"-node", "a"},
			plan.Node{Name: "a", Zone: "za", Addresses: addrs("10.0.0.5", "fd00::5", "10.0.0.6", "203.0.113.5")},
			bogus,
		},
		{
			"flags replace zone and all addresses",
			[]string{"-node", "a", "-zone", "zx", "-node-ip", "10.0.0.9"},
			plan.Node{Name: "a", Zone: "zx", Addresses: addrs("10.0.0.9")},
			bogus,
		},
		{
			"zone can be taken away",
			[]string{"-node", "a", "-zone", ""},
			plan.Node{Name: "a", Addresses: addrs("10.0.0.5", "fd00::5", "10.0.0.6", "203.0.113.5")},
			bogus,
		},
		{
			"no object",
			[]string{"-node", "A", "-node-ip", "fd00::9", "-node-ip", "10.0.0.9", "-pod-cidr", "10.244.1.7/24", "-pod-cidr", "fd00:1::/64"},
			plan.Node{Name: "A", Addresses: addrs("fd00::9", "10.0.0.9"), PodCIDRs: prefixes("10.244.1.0/24", "fd00:1::/64")},
			nil,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, problems := parse(t, tt.args...).Node(nodes)
			if diff := cmp.Diff(tt.want, got, compareAddresses); diff != "" {
				t.Errorf("node (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.problems, problems, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestConfig(t *testing.T) {
	f := parse(t, "-node", "a", "-zone", "za", "-node-ip", "10.0.0.5", "-pod-cidr", "10.244.1.0/24", "-pod-interface", "veth*", "-pod-interface", "cni0", "-masquerade-all", "-deny-invalid-ranges",
		"-service-cidr", "fd00:96::/112", "-service-cidr", "10.96.0.0/12")
	got := f.Config()
	want := plan.Config{
		Node:              plan.Node{Name: "a", Zone: "za", Addresses: addrs("10.0.0.5"), PodCIDRs: prefixes("10.244.1.0/24")},
		PodInterfaces:     []string{"veth*", "cni0"},
		MasqueradeAll:     true,
		DenyInvalidRanges: true,
		ServiceCIDRs:      prefixes("fd00:96::/112", "10.96.0.0/12"),
	}
	if diff := cmp.Diff(want, got, compareAddresses); diff != "" {
		t.Errorf("configuration (-want +got):\n%s", diff)
	}
}

func TestBadValues(t *testing.T) {
	for _, args := range [][]string{
		{"-node-ip", "node"},
		{"-node-ip", "10.0.0.1,10.0.0.2"},
		{"-pod-cidr", "10.0.0.1"},
		{"-pod-cidr", "10.244.0.0/24,10.244.1.0/24"},
		{"-service-cidr", "10.96.0.0/33"},
		{"-pod-interface", ""},
		{"-pod-interface", "*"},
	} {
		fs := flag.NewFlagSet("test", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		nodeflags.Register(fs)
		if err := fs.Parse(args); err == nil {
			t.Errorf("Parse(%q): no error", args)
		}
	}
}

func TestCheck(t *testing.T) {
	if err := parse(t, "-zone", "z").Check(); !errors.Is(err, nodeflags.ErrNoNode) {
		t.Errorf("without -node: error %v", err)
	}
	if err := parse(t, "-node", "a").Check(); err != nil {
		t.Errorf("with -node: error %v", err)
	}
}

func TestParsePrefix(t *testing.T) {
	for text, want := range map[string]string{
		"010.1.2.3/8":          "10.0.0.0/8",
		"fd00:0:0::1/64":       "fd00::/64",
		"::ffff:10.1.2.3/104":  "10.0.0.0/8",
		"0.0.0.0/0":            "0.0.0.0/0",
		"2001:db8::1.2.3.4/96": "2001:db8::/96",
	} {
		if got, err := nodeflags.ParsePrefix(text); err != nil || got.String() != want {
			t.Errorf("ParsePrefix(%q) = %v, %v; want %s", text, got, err, want)
		}
	}
}
