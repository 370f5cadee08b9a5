package plan_test

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

func TestSourceRanges(t *testing.T) {
	tests := []struct {
		name string
		svc  *service.Service
		deny bool
		want map[string]string // load-balancer IP to its Allow, "open" if not restricted
	}{
		{name: "E11 one range", svc: svc(vip("5.5.5.5"), ranges("203.0.113.0/24")), want: map[string]string{"5.5.5.5": "[203.0.113.0/24]"}},
		{name: "E12 a range with the node's address", svc: svc(vip("5.5.5.5"), ranges("192.168.0.0/24")), want: map[string]string{"5.5.5.5": "[5.5.5.5/32 192.168.0.0/24]"}},
		{
			name: "E12 E14 two load-balancer IPs share the ranges", svc: svc(vip("5.5.5.5", "5.5.5.6"), ranges("192.168.0.0/24")),
			want: map[string]string{"5.5.5.5": "[5.5.5.5/32 5.5.5.6/32 192.168.0.0/24]", "5.5.5.6": "[5.5.5.5/32 5.5.5.6/32 192.168.0.0/24]"},
		},
		{name: "sorted, once each", svc: svc(vip("5.5.5.5"), ranges("203.0.113.0/24", "10.0.0.0/8", "203.0.113.0/24")), want: map[string]string{"5.5.5.5": "[10.0.0.0/8 203.0.113.0/24]"}},
		{
			name: "a range inside another", svc: svc(vip("5.5.5.5"), ranges("10.1.2.0/24", "10.0.0.0/8", "10.255.255.255/32", "11.0.0.0/8")),
			want: map[string]string{"5.5.5.5": "[10.0.0.0/8 11.0.0.0/8]"},
		},
		{
			name: "everybody in one family", svc: svc(dualStack, vip("5.5.5.5", "2001:db8:5::5"), ranges("10.0.0.0/8", "0.0.0.0/0", "2001:db8:ffff::/48")),
			want: map[string]string{"5.5.5.5": "open", "2001:db8:5::5": "[2001:db8:ffff::/48]"},
		},
		{
			name: "everybody in IPv6", svc: svc(dualStack, vip("5.5.5.5", "2001:db8:5::5"), ranges("10.0.0.0/8", "::/0")),
			want: map[string]string{"5.5.5.5": "[10.0.0.0/8]", "2001:db8:5::5": "open"},
		},
		{name: "no range", svc: svc(vip("5.5.5.5")), want: map[string]string{"5.5.5.5": "open"}},
		{name: "all ranges invalid", svc: svc(vip("5.5.5.5"), invalidRanges), want: map[string]string{"5.5.5.5": "open"}},
		{name: "all ranges invalid, deny", svc: svc(vip("5.5.5.5"), invalidRanges), deny: true, want: map[string]string{"5.5.5.5": "[]"}},
		{name: "no range, deny", svc: svc(vip("5.5.5.5")), deny: true, want: map[string]string{"5.5.5.5": "open"}},
		{
			name: "ranges of the other family leave this one open", svc: svc(dualStack, vip("5.5.5.5", "2001:db8:5::5"), ranges("2001:db8:ffff::/48")), deny: true,
			want: map[string]string{"5.5.5.5": "open", "2001:db8:5::5": "[2001:db8:ffff::/48]"},
		},
		{
			name: "E12 in IPv6", svc: svc(dualStack, vip("2001:db8:5::5"), ranges("2001:db8::/64")),
			want: map[string]string{"2001:db8:5::5": "[2001:db8::/64 2001:db8:5::5/128]"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := config()
			cfg.DenyInvalidRanges = tt.deny
			p := build(cfg, tt.svc, eps("a R"))
			for port := range p.All() {
				for _, f := range port.Frontends {
					got := "open"
					if f.Restricted {
						got = fmt.Sprint(f.Allow)
					}
					want := "open"
					if f.Kind == plan.LoadBalancerIP {
						want = tt.want[f.Addr.String()]
					}
					if got != want {
						t.Errorf("%s %s is for %s, want %s", f.Kind, &f, got, want)
					}
				}
			}
		})
	}
}

func invalidRanges(s *service.Service) { s.IPv4.SourceRangesInvalid = true }

func TestTraceSourceRanges(t *testing.T) {
	open := svc(vip("5.5.5.5"), externalIP("9.9.9.9"), nodePort(30080), ranges("203.0.113.0/24"))
	t.Run("E11 E15 only the load-balancer IP is restricted", func(t *testing.T) {
		checkPackets(t, build(config(), open, eps("a R")), map[string]string{
			"X 5.5.5.5:80":             "a masq",
			"198.51.100.1 5.5.5.5:80":  "drop",
			"P 5.5.5.5:80":             "drop",
			"H 5.5.5.5:80":             "drop",
			"198.51.100.1 9.9.9.9:80":  "a masq",
			"P 10.96.0.10:80":          "a",
			"H 192.168.0.2:30080":      "a masq",
			"198.51.100.1 5.5.5.5:443": "pass",
		})
	})
	t.Run("E13 ranges act before reject", func(t *testing.T) {
		checkPackets(t, build(config(), open), map[string]string{
			"X 5.5.5.5:80":            "reject",
			"198.51.100.1 5.5.5.5:80": "drop",
			"198.51.100.1 9.9.9.9:80": "reject",
		})
	})
	t.Run("E12 the node dials a load-balancer IP that is bound to it", func(t *testing.T) {
		checkPackets(t, build(config(), svc(vip("5.5.5.5"), ranges("192.168.0.0/24")), eps("a R")), map[string]string{
			"5.5.5.5 5.5.5.5:80": "a masq",
			"H 5.5.5.5:80":       "a masq",
			"X 5.5.5.5:80":       "drop",
		})
	})
	t.Run("all ranges invalid, deny: nobody", func(t *testing.T) {
		cfg := config()
		cfg.DenyInvalidRanges = true
		checkPackets(t, build(cfg, svc(vip("5.5.5.5"), invalidRanges), eps("a R")), map[string]string{"X 5.5.5.5:80": "drop", "H 5.5.5.5:80": "drop", "P 10.96.0.10:80": "a"})
	})
	t.Run("an external IP that is a load-balancer IP too has its ranges", func(t *testing.T) {
		p := build(config(), svc(vip("5.5.5.5"), externalIP("5.5.5.5"), ranges("203.0.113.0/24")), eps("a R"))
		checkPackets(t, p, map[string]string{"X 5.5.5.5:80": "a masq", "198.51.100.1 5.5.5.5:80": "drop"})
	})
}

func TestRangesOfTheNode(t *testing.T) {
	t.Run("fault F08e a range with any address of the node admits the node by the load-balancer IP", func(t *testing.T) {
		cfg := nodeWith("10.0.0.5", "10.1.0.5")
		p := build(cfg, svc(vip("203.0.113.40"), ranges("10.1.0.0/16")), eps("a R"))
		for source, want := range map[string]plan.Verdict{"10.1.0.5": plan.Forward, "203.0.113.40": plan.Forward, "10.0.0.5": plan.Drop} {
			tr := p.Trace(plan.Packet{Source: addr(source), Destination: netip.MustParseAddrPort("203.0.113.40:80"), Protocol: tcp})
			if tr.Verdict != want {
				t.Errorf("from %s: %s, want %s", source, tr.Verdict, want)
			}
		}
	})
	t.Run("fault F08e nodePortAddresses choose among the addresses of the Node", func(t *testing.T) {
		cfg := nodeWith("10.0.0.5")
		cfg.NodePortAddresses = selector(t, "10.1.0.0/16")
		p := build(cfg, svc(nodePort(30080)), eps("a R"))
		tr := p.Trace(plan.Packet{Source: addr("10.0.0.9"), Interface: "eth0", Destination: netip.MustParseAddrPort("10.1.0.5:30080"), Protocol: tcp})
		if tr.Verdict != plan.Pass {
			t.Errorf("an address that the Node object lacks: %s, want pass", tr.Verdict)
		}
	})
}
