package plan_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
)

func TestConfigChange(t *testing.T) {
	hinted := eps("a R loc z:za", "b R z:zb")
	base := func() *plan.Plan {
		return build(config(),
			svc(policies("C/L/yes"), ranges("203.0.113.0/24")), hinted,
			svc(name("ns1/svc2"), clusterIP("10.96.0.11")), eps("c R"))
	}
	tests := []struct {
		name   string
		change func(*plan.Config)
		config bool
		ports  string
		want   map[string]string
	}{
		{name: "#68 nothing relevant", change: func(*plan.Config) {}},
		{name: "order of ranges", change: func(c *plan.Config) {
			c.Node.PodCIDRs = []netip.Prefix{prefix("fd00:180::/64"), prefix("10.180.0.0/16"), prefix("10.180.0.0/16")}
		}},
		{name: "#37 E37 another zone", change: func(c *plan.Config) { c.Node.Zone = "zb" }, config: true, ports: "ns1/svc1:p80", want: map[string]string{"P 10.96.0.10:80": "b"}},
		{name: "#37 no zone", change: func(c *plan.Config) { c.Node.Zone = "" }, config: true, ports: "ns1/svc1:p80", want: map[string]string{"P 10.96.0.10:80": "a b"}},
		{name: "#37 a zone that no hint names", change: func(c *plan.Config) { c.Node.Zone = "zc" }, config: true, ports: "ns1/svc1:p80", want: map[string]string{"P 10.96.0.10:80": "a b"}},
		{
			name: "#68 another node address, in a source range", change: func(c *plan.Config) { c.Node.Addresses = []netip.Addr{addr("203.0.113.8")} }, config: true, ports: "ns1/svc1:p80",
			want: map[string]string{"5.5.5.5 5.5.5.5:80": "a", "203.0.113.8 5.5.5.5:80": "a masq", "X 203.0.113.8:30080": "a", "X 192.168.0.2:30080": "pass"},
		},
		{
			name: "#68 another node address", change: func(c *plan.Config) { c.Node.Addresses[0] = addr("192.168.0.3") }, config: true,
			want: map[string]string{"X 192.168.0.3:30080": "a", "X 192.168.0.2:30080": "pass"},
		},
		{
			name: "#68 K20 K21 another pod CIDR", change: func(c *plan.Config) { c.Node.PodCIDRs = []netip.Prefix{prefix("10.9.0.0/16")} }, config: true,
			want: map[string]string{"10.9.0.1 10.96.0.11:80": "c", "10.180.0.1 10.96.0.11:80": "c masq"},
		},
		{
			name: "K18 K20 no pod CIDR any more", change: func(c *plan.Config) { c.Node.PodCIDRs = nil }, config: true, ports: "ns1/svc1:p80 ns1/svc2:p80",
			want: map[string]string{"X 10.96.0.11:80": "c"},
		},
		{
			name: "E38 a Service CIDR more", change: func(c *plan.Config) { c.ServiceCIDRs = []netip.Prefix{prefix("10.96.0.0/12")} }, config: true,
			want: map[string]string{"P 10.96.0.99:80": "drop"},
		},
		{
			name: "E16 masquerade all", change: func(c *plan.Config) { c.MasqueradeAll = true }, config: true, ports: "ns1/svc1:p80 ns1/svc2:p80",
			want: map[string]string{"P 10.96.0.11:80": "c masq"},
		},
		{name: "another node name", change: func(c *plan.Config) { c.Node.Name = "n2" }, config: true, ports: "ns1/svc1:p80", want: map[string]string{"X 5.5.5.5:80": "b"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := base()
			cfg := config()
			tt.change(&cfg)
			p, d := before.Update(plan.Input{Config: &cfg})
			if d.Config != tt.config || keys(d.Ports) != tt.ports {
				t.Errorf("diff is config %t, ports %q; want %t, %q", d.Config, keys(d.Ports), tt.config, tt.ports)
			}
			for port := range p.All() {
				if same := before.Port(port.Key) == port; same == slices.Contains(d.Ports, port.Key) {
					t.Errorf("%s: same pointer %t, in the diff %t", port.PortName, same, !same)
				}
			}
			checkPackets(t, p, tt.want)
		})
	}
}

// TestZoneComesLate goes through the steps of #37 without any other event.
func TestZoneComesLate(t *testing.T) {
	cfg := config()
	cfg.Node.Zone = ""
	p := build(cfg, svc(), eps("a R z:z1", "b R z:z2", "c R z:z2"), svc(name("ns1/svc2"), clusterIP("10.96.0.11")), eps("a R z:z1", "b R"))
	for _, step := range []struct{ zone, want string }{{"", "a b c"}, {"z1", "a"}, {"z2", "b c"}, {"z3", "a b c"}, {"", "a b c"}} {
		t.Run("#37 zone "+step.zone, func(t *testing.T) {
			cfg.Node.Zone = step.zone
			p, _ = p.Update(plan.Input{Config: &cfg})
			checkPackets(t, p, map[string]string{"P 10.96.0.10:80": step.want, "P 10.96.0.11:80": "a b"})
		})
	}
}

func TestConfigIsCopied(t *testing.T) {
	cfg := config()
	p := build(cfg, svc(), eps("a R"))
	cfg.Node.PodCIDRs[0] = prefix("10.9.0.0/16")
	checkPackets(t, p, map[string]string{"P 10.96.0.10:80": "a", "X 10.96.0.10:80": "a masq"})
}

func TestConfigIsNormalized(t *testing.T) {
	cfg := plan.Config{Node: plan.Node{
		Addresses: []netip.Addr{addr("::ffff:192.0.2.1"), {}, addr("fe80::1%eth0"), addr("192.0.2.1"), addr("0.0.0.0")},
		PodCIDRs:  []netip.Prefix{prefix("10.2.3.4/16"), {}, prefix("10.1.0.0/16"), prefix("10.1.7.0/24")},
	}, PodInterfaces: []string{"b", "", "a", "b"}}
	cfg.NodePortAddresses.Prefixes = []netip.Prefix{prefix("192.0.2.1/24"), {}, prefix("192.0.2.7/24")}
	got := plan.New(cfg).Config()
	if a := got.Node.Addresses; len(a) != 2 || a[0] != addr("192.0.2.1") || a[1] != addr("fe80::1") {
		t.Errorf("addresses are %v", a)
	}
	if c := got.Node.PodCIDRs; len(c) != 2 || c[0] != prefix("10.1.0.0/16") || c[1] != prefix("10.2.0.0/16") {
		t.Errorf("pod CIDRs are %v", c)
	}
	if i := got.PodInterfaces; len(i) != 2 || i[0] != "a" || i[1] != "b" {
		t.Errorf("interfaces are %v", i)
	}
	if n := got.NodePortAddresses.Prefixes; len(n) != 1 || n[0] != prefix("192.0.2.0/24") {
		t.Errorf("ranges of NodePorts are %v", n)
	}
}

// TestConfigIsComparedInFull changes one thing that others hide.
func TestConfigIsComparedInFull(t *testing.T) {
	for _, lists := range [][2][]string{{{"all"}, {"all", "localhost"}}, {{"10.0.0.0/8"}, {"primary", "10.0.0.0/8"}}} {
		one, other := config(), config()
		one.NodePortAddresses, other.NodePortAddresses = selector(t, lists[0]...), selector(t, lists[1]...)
		if _, d := build(one, svc()).Update(plan.Input{Config: &other}); !d.Config {
			t.Errorf("from NodePort addresses %v to %v nothing changes", lists[0], lists[1])
		}
	}
	deny := config()
	deny.DenyInvalidRanges = true
	if text := build(deny).String(); !strings.Contains(text, "deny invalid ranges") || strings.Contains(build(config()).String(), "deny") {
		t.Errorf("a configuration that denies invalid ranges prints as\n%s", text)
	}
}
