package nftables

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// A rendered is what Render writes: statements with one element each.
type rendered []string

func render(t *testing.T, cfg plan.Config, apps ...app) rendered {
	t.Helper()
	in := with(apps...)
	in.Config = &cfg
	p, _ := plan.New(cfg).Update(in)
	text, err := Render(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var out rendered
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if i := strings.Index(line, " comment \""); strings.HasPrefix(line, "add rule") {
			line = line[:i] // the hash
		}
		head, list, ok := strings.Cut(line, " { ")
		if !ok || !strings.HasPrefix(line, "add element") {
			out = append(out, line)
			continue
		}
		for el := range strings.SplitSeq(strings.TrimSuffix(list, " }"), ", ") {
			out = append(out, head+" { "+el+" }")
		}
	}
	return out
}

// with returns the statements that contain all of the words.
func (r rendered) with(words ...string) (out []string) {
	for _, line := range r {
		if !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) }) {
			out = append(out, line)
		}
	}
	return out
}

// e returns an element of the IPv4 table.
func e(box, text string) string { return "add element ip vipkit " + box + " { " + text + " }" }

// rules returns the rules of a chain of the IPv4 table.
func (r rendered) rules(chain string) (out []string) {
	prefix := "add rule ip vipkit " + chain + " "
	for _, line := range r {
		if rule, ok := strings.CutPrefix(line, prefix); ok {
			out = append(out, rule)
		}
	}
	return out
}

const (
	e1 = "10.180.0.1:8080@n1"
	e2 = "10.180.1.1:8080@n2"
)

func loadBalancer(s *service.Service) { s.IPv4.LoadBalancerIPs = []netip.Addr{addr("5.5.5.5")} }
func onlyLocal(s *service.Service)    { s.ExternalLocal = true }
func nodePort(s *service.Service)     { s.Ports[0].NodePort = 30080 }
func internalLocal(s *service.Service) {
	s.InternalLocal = true
}

func ranges(texts ...string) func(*service.Service) {
	return func(s *service.Service) {
		for _, text := range texts {
			s.IPv4.SourceRanges = append(s.IPv4.SourceRanges, prefix(text))
		}
	}
}

// TestRows checks what a Service becomes: the elements that must be there, and what
// no statement may contain.
func TestRows(t *testing.T) {
	tests := []struct {
		name   string
		eps    string
		change func(*service.Service)
		want   []string
		never  []string
	}{
		{"E01 one endpoint", e2, nil, []string{
			e("cluster-ips", "10.96.0.10"),
			e("service-ips", `10.96.0.10 . tcp . 80 comment "ns1/svc1:p80" : goto row-cCC`),
			e("sizes", "10.96.0.10 . tcp . 80 : 0:1"),
			e("picks", "tcp . 0:1 : goto pick-tcp-1"),
			e("endpoints-tcp", "10.96.0.10 . 80 . 0 : 10.180.1.1 . 8080"),
		}, []string{"no-endpoint-ips {", "nodeports {", "local-sizes {"}},
		{"E02 two endpoints", e1 + " " + e2, nil, []string{
			e("service-ips", `10.96.0.10 . tcp . 80 comment "ns1/svc1:p80" : goto row-cCC`),
			e("sizes", "10.96.0.10 . tcp . 80 : 0:2"),
			e("picks", "tcp . 0:2 : goto pick-tcp-2"),
			e("endpoints-tcp", "10.96.0.10 . 80 . 0 : 10.180.0.1 . 8080"),
			e("endpoints-tcp", "10.96.0.10 . 80 . 1 : 10.180.1.1 . 8080"),
		}, nil},
		{"E04 E10 no endpoint", "", both(externals, onlyLocal), []string{
			e("cluster-ips", "10.96.0.10"),
			e("no-endpoint-ips", `10.96.0.10 . tcp . 80 comment "ns1/svc1:p80" : goto refuse`),
			e("no-endpoint-ips", `203.0.113.5 . tcp . 80 comment "ns1/svc1:p80" : goto refuse`),
			e("no-endpoint-nodeports", `tcp . 30080 comment "ns1/svc1:p80" : goto refuse`),
		}, []string{": goto row", ": drop", "service-nodeports {"}},
		{"E05 internal policy Local, none local", e2, internalLocal, []string{
			e("no-endpoint-ips", `10.96.0.10 . tcp . 80 comment "ns1/svc1:p80" : drop`),
		}, []string{": goto row", "element ip vipkit endpoints-tcp"}},
		{"E06 internal policy Local, one local", e1 + " " + e2, internalLocal, []string{
			e("service-ips", `10.96.0.10 . tcp . 80 comment "ns1/svc1:p80" : goto row-lLL`),
			e("local-sizes", "10.96.0.10 . tcp . 80 : 0:1"),
			e("local-picks", "tcp . 0:1 : goto local-pick-tcp-1"),
			e("endpoints-tcp", "10.96.0.10 . 80 . 65536 : 10.180.0.1 . 8080"),
		}, []string{"10.180.1.1", "vipkit sizes {"}},
		{"E07 node port", e2, nodePort, []string{
			e("service-nodeports", `tcp . 30080 comment "ns1/svc1:p80" : goto nodeport-row-CCC`),
			e("nodeport-sizes", "tcp . 30080 : 0:1"),
			e("nodeport-picks", "tcp . 0:1 : goto nodeport-pick-tcp-1"),
			e("nodeport-endpoints-tcp", "30080 . 0 : 10.180.1.1 . 8080"),
		}, []string{"no-endpoint-nodeports {"}},
		{"E08 external policy Local", e1 + " " + e2, both(loadBalancer, onlyLocal), []string{
			e("service-ips", `5.5.5.5 . tcp . 80 comment "ns1/svc1:p80" : goto row-cCl`),
			e("sizes", "5.5.5.5 . tcp . 80 : 0:2"),
			e("local-sizes", "5.5.5.5 . tcp . 80 : 0:1"),
			e("endpoints-tcp", "5.5.5.5 . 80 . 0 : 10.180.0.1 . 8080"),
			e("endpoints-tcp", "5.5.5.5 . 80 . 1 : 10.180.1.1 . 8080"),
			e("endpoints-tcp", "5.5.5.5 . 80 . 65536 : 10.180.0.1 . 8080"),
		}, []string{"no-endpoint-ips {"}},
		{"E09 #7 external policy Local, none local", e2, both(loadBalancer, onlyLocal), []string{
			e("service-ips", `5.5.5.5 . tcp . 80 comment "ns1/svc1:p80" : goto row-cCx`),
			e("no-endpoint-ips", `5.5.5.5 . tcp . 80 comment "ns1/svc1:p80" : drop`),
		}, []string{"65536 :"}},
		{"E11 E12 source ranges", e2, both(loadBalancer, ranges("203.0.113.0/24", "192.0.2.0/24")), []string{
			e("restricted-ips", `5.5.5.5 . tcp . 80 comment "ns1/svc1:p80"`),
			e("allowed-sources", "5.5.5.5 . tcp . 80 . 203.0.113.0/24"),
			e("allowed-sources", "5.5.5.5 . tcp . 80 . 192.0.2.0/24"),
			e("allowed-sources", "5.5.5.5 . tcp . 80 . 5.5.5.5/32"), // the node's own address for its own VIP
		}, []string{"restricted-ips { 10.96"}},
		{"E11 a source range of all addresses", e2, both(loadBalancer, ranges("203.0.113.0/24", "0.0.0.0/0")), []string{
			e("service-ips", `5.5.5.5 . tcp . 80 comment "ns1/svc1:p80" : goto row-CCC`),
		}, []string{"restricted-ips {", "allowed-sources {"}},
		{"E13 source ranges without endpoints", "", both(loadBalancer, ranges("203.0.113.0/24")), []string{
			e("restricted-ips", `5.5.5.5 . tcp . 80 comment "ns1/svc1:p80"`),
			e("allowed-sources", "5.5.5.5 . tcp . 80 . 203.0.113.0/24"),
			e("no-endpoint-ips", `5.5.5.5 . tcp . 80 comment "ns1/svc1:p80" : goto refuse`),
		}, nil},
		{"E14 two load-balancer IPs", e2, both(loadBalancer, ranges("203.0.113.0/24"), func(s *service.Service) {
			s.IPv4.LoadBalancerIPs = append(s.IPv4.LoadBalancerIPs, addr("5.5.5.6"))
		}), []string{
			e("allowed-sources", "5.5.5.5 . tcp . 80 . 203.0.113.0/24"),
			e("allowed-sources", "5.5.5.6 . tcp . 80 . 203.0.113.0/24"),
		}, nil},
		{"E15 external IP", e2, both(ranges("203.0.113.0/24"), func(s *service.Service) { s.IPv4.ExternalIPs = []netip.Addr{addr("9.9.9.9")} }), []string{
			e("service-ips", `9.9.9.9 . tcp . 80 comment "ns1/svc1:p80" : goto row-CCC`),
		}, []string{"restricted-ips {", "allowed-sources {"}},
		{"E18 no element of its own for an endpoint that reaches itself", e1, nil, nil, []string{"10.180.0.1 . 10.180.0.1"}},
		{"E27 no port name", e2, func(s *service.Service) { s.Ports[0].Name = "" }, []string{
			e("service-ips", `10.96.0.10 . tcp . 80 comment "ns1/svc1" : goto row-cCC`),
		}, nil},
		{"E28 UDP", e2, func(s *service.Service) { s.Ports[0].Protocol = corev1.ProtocolUDP }, []string{
			e("service-ips", `10.96.0.10 . udp . 80 comment "ns1/svc1:p80" : goto row-cCC`),
			e("endpoints-udp", "10.96.0.10 . 80 . 0 : 10.180.1.1 . 8080"),
		}, []string{"endpoints-tcp {"}},
		{"E45 SCTP", e2, func(s *service.Service) { s.Ports[0].Protocol = corev1.ProtocolSCTP }, []string{
			e("service-ips", `10.96.0.10 . sctp . 80 comment "ns1/svc1:p80" : goto row-cCC`),
			e("endpoints-sctp", "10.96.0.10 . 80 . 0 : 10.180.1.1 . 8080"),
		}, []string{"endpoints-tcp {"}},
		{"E46 health-check port", e1, both(loadBalancer, onlyLocal, func(s *service.Service) { s.HealthCheckNodePort = 31000 }), nil, []string{"31000"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := render(t, nodeConfig(), app{name: "svc1", vip: "10.96.0.10", eps: tt.eps, change: tt.change})
			for _, line := range tt.want {
				if !slices.Contains(got, line) {
					t.Errorf("missing: %s\nhave:\n%s", line, strings.Join(got.with("add element"), "\n"))
				}
			}
			for _, part := range tt.never {
				if found := got.with("add element", part); len(found) > 0 {
					t.Errorf("must not be: %q", found)
				}
			}
		})
	}
}

func TestRowChains(t *testing.T) {
	const mark = "meta mark set meta mark or 0x4000 "
	got := render(t, nodeConfig(),
		app{name: "a", vip: "10.96.0.10", eps: e1 + " " + e2, change: both(loadBalancer, onlyLocal)},
		app{name: "b", vip: "10.96.0.11", eps: e2, change: both(externals, onlyLocal)})
	tests := []struct {
		chain string
		want  []string
	}{
		{"row-cCC", []string{"ip saddr @pod-cidrs goto pick", mark + "goto pick"}},
		{"row-cCl", []string{
			"ip saddr @pod-cidrs goto pick",
			"fib saddr type local " + mark + "goto pick",
			"goto local-pick",
		}},
		{"row-cCx", []string{
			"ip saddr @pod-cidrs goto pick",
			"fib saddr type local " + mark + "goto pick",
			"return",
		}},
		{"pick", []string{
			"meta priority set 0:0",
			"meta priority set ip daddr . meta l4proto . th dport map @sizes",
			"meta l4proto . meta priority vmap @picks",
		}},
		{"nodeport-local-pick", []string{
			"meta priority set 0:0",
			"meta priority set meta l4proto . th dport map @nodeport-local-sizes",
			"meta l4proto . meta priority vmap @nodeport-local-picks",
		}},
		{"pick-tcp-2", []string{
			"meta priority set 0:0",
			"meta l4proto tcp dnat ip to ip daddr . tcp dport . numgen random mod 2 map @endpoints-tcp",
			"meta l4proto tcp dnat ip to ip daddr . tcp dport . numgen random mod 1 map @endpoints-tcp",
		}},
		{"local-pick-tcp-1", []string{"meta priority set 0:0", "meta l4proto tcp dnat ip to ip daddr . tcp dport . numgen random mod 1 offset 65536 map @endpoints-tcp"}},
		{"nodeport-pick-tcp-1", []string{"meta priority set 0:0", "meta l4proto tcp dnat ip to tcp dport . numgen random mod 1 map @nodeport-endpoints-tcp"}},
		{"nat-postrouting", []string{
			"meta mark & 0x4000 != 0 meta mark set meta mark xor 0x4000 masquerade fully-random",
			"ct status dnat jump hairpin",
		}},
	}
	for _, tt := range tests {
		if rules := got.rules(tt.chain); !slices.Equal(rules, tt.want) {
			t.Errorf("chain %s has\n%s\nwant\n%s", tt.chain, strings.Join(rules, "\n"), strings.Join(tt.want, "\n"))
		}
	}
}

func TestConfiguration(t *testing.T) {
	tests := []struct {
		name   string
		change func(*plan.Config)
		want   []string
		never  string
	}{
		{"E16 masquerade all", func(c *plan.Config) { c.MasqueradeAll = true }, []string{": goto row-CCC"}, " row-cCC"},
		{"E17 no detector", func(c *plan.Config) { c.Node.PodCIDRs = nil }, []string{": goto pick }"}, " row-"},
		{"#63 E17 interfaces", func(c *plan.Config) {
			c.Node.PodCIDRs, c.PodInterfaces = nil, []string{"veth-*", "cni0"}
		}, []string{`row-cCC iifname "veth-*" goto`, `row-cCC iifname "cni0" goto`}, "veth-\" "},
		{"#63 names that cannot be written", func(c *plan.Config) { c.PodInterfaces = []string{`a"b`, "an-interface-too-long*", "*"} }, nil, "iifname"},
		{"E20 #61 node port addresses", func(c *plan.Config) {
			c.NodePortAddresses.Prefixes = []netip.Prefix{prefix("192.0.2.0/24")}
		}, []string{"nodeport-addresses { 192.0.2.2/32 }", "nodeports ip daddr @nodeport-addresses meta l4proto . th dport vmap @service-nodeports"}, "fib daddr"},
		{"E21 all addresses", func(c *plan.Config) {
			c.NodePortAddresses.All = true
		}, []string{"nodeports fib daddr type local ip daddr != 127.0.0.0/8 ip daddr != 169.254.0.0/16 meta l4proto . th dport vmap @service-nodeports"}, ""},
		{"E22 loopback", func(c *plan.Config) { c.NodePortAddresses.Localhost = true }, nil, "127.0.0.0"},
		{"E23 no address of the family", func(c *plan.Config) {
			c.NodePortAddresses.Prefixes = []netip.Prefix{prefix("172.16.0.0/12")}
		}, nil, "element ip vipkit nodeport-addresses"},
		{"E24 E38 #67 Service CIDRs of both families", func(c *plan.Config) {
			c.ServiceCIDRs = []netip.Prefix{prefix("10.96.0.0/12"), prefix("fd00:96::/112")}
		}, []string{"ip vipkit service-cidrs { 10.96.0.0/12 }", "ip6 vipkit service-cidrs { fd00:96::/112 }", "cluster-ip ip daddr @service-cidrs drop"}, "ip vipkit service-cidrs { fd00"},
		{"E25 no Service CIDR", func(*plan.Config) {}, nil, "element ip vipkit service-cidrs"},
		{"E26 unused port of a ClusterIP", func(*plan.Config) {}, []string{"ip vipkit cluster-ip ip daddr @cluster-ips reject"}, ""},
		{"ranges within ranges", func(c *plan.Config) {
			c.Node.PodCIDRs = []netip.Prefix{prefix("10.180.0.0/24"), prefix("10.180.0.0/16"), prefix("10.180.0.0/16")}
		}, []string{"pod-cidrs { 10.180.0.0/16 }"}, "10.180.0.0/24"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := nodeConfig()
			tt.change(&cfg)
			got := render(t, cfg, app{name: "a", vip: "10.96.0.10", eps: e1 + " " + e2, change: nodePort})
			for _, part := range tt.want {
				if len(got.with(part)) != 1 {
					t.Errorf("%d statements with %q, want one in\n%s", len(got.with(part)), part, strings.Join(got, "\n"))
				}
			}
			if tt.never != "" && len(got.with(tt.never)) > 0 {
				t.Errorf("must not be: %q", got.with(tt.never))
			}
		})
	}
}

func TestSharedElements(t *testing.T) {
	twins := func(s *service.Service) {
		s.Ports = append(s.Ports, service.Port{Name: "u", Protocol: corev1.ProtocolUDP, Port: 80})
	}
	got := render(t, nodeConfig(), app{name: "a", vip: "10.96.0.10", eps: e1, change: twins})
	if tcp, udp := got.with("service-ips { 10.96.0.10 . tcp . 80"), got.with("service-ips { 10.96.0.10 . udp . 80"); len(tcp) != 1 || len(udp) != 1 {
		t.Errorf("#17 TCP and UDP on one number: %q and %q", tcp, udp)
	}
	if n := len(got.with("element", "cluster-ips {")); n != 1 {
		t.Errorf("two ports of one ClusterIP: %d elements, want 1", n)
	}
}

func TestAffinityRules(t *testing.T) {
	got := render(t, nodeConfig(), app{name: "a", vip: "10.96.0.10", eps: e1 + " " + e2, change: affine})
	maps, chains := got.with("add map ip vipkit affinity-"), got.with("add chain ip vipkit affinity-")
	if len(maps) != 3 || len(chains) != 6 {
		t.Errorf("E03 got maps %q and chains %q, want 3 and 6", maps, chains)
	}
	if n := len(got.with("update @affinity-", fmt.Sprintf("timeout %ds", int64(3*time.Hour/time.Second)))); n != 2 {
		t.Errorf("E03 %d rules remember a client for 10800 seconds, want 2", n)
	}
	if n := len(got.with("meta priority set numgen random mod 2 meta priority vmap @affinity-")); n != 1 {
		t.Errorf("E03 %d rules choose one of two endpoints, want 1", n)
	}
	if lines := got.with("typeof numgen"); len(lines) != 0 {
		t.Errorf("fault F09: nft 1.1.7 reads such keys back in the wrong byte order: %q", lines)
	}
	for _, line := range got {
		if i := strings.Index(line, "{"); strings.HasPrefix(line, "add rule") && i >= 0 && strings.Contains(line[i:], ",") {
			t.Errorf("an anonymous set or map: %s", line)
		}
	}
}
