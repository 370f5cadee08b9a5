package plan_test

import (
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

func TestTraceUnmatched(t *testing.T) {
	cfg := config()
	cfg.ServiceCIDRs = []netip.Prefix{prefix("10.96.0.0/12"), prefix("fd00:96::/112")}
	p := build(cfg, svc(dualStack, externalIP("9.9.9.9"), nodePort(30080)), eps("a R"))
	tests := []struct {
		name string
		want map[string]string
	}{
		{"E26 unused port of a ClusterIP", map[string]string{"P 10.96.0.10:81": "reject", "H 10.96.0.10:81": "reject", "X [fd00:96::10]:81": "reject"}},
		{"E26 other protocol of a ClusterIP", map[string]string{"P 10.96.0.10:80/udp": "reject", "P 10.96.0.10:80/sctp": "reject"}},
		{"E24 unallocated Service address", map[string]string{"P 10.96.0.11:80": "drop", "P 10.111.255.255:1": "drop", "P [fd00:96::11]:80": "drop"}},
		{"E24 outside the Service CIDRs", map[string]string{"P 10.112.0.0:80": "pass", "P [fd00:97::1]:80": "pass"}},
		{"unused port of an external IP", map[string]string{"X 9.9.9.9:81": "pass"}},
		{"a node port number on another address", map[string]string{"X 198.51.100.9:30080": "pass", "H 127.0.0.1:30080": "pass"}},
		{"ordinary port of the node", map[string]string{"X 192.168.0.2:22": "pass"}},
		{"families do not mix", map[string]string{"P [fd00:96::10]:80": "a", "10.180.0.99 [fd00:96::10]:80": "pass"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { checkPackets(t, p, tt.want) })
	}
	t.Run("E25 no Service CIDR known", func(t *testing.T) {
		checkPackets(t, build(config(), svc()), map[string]string{"P 10.96.0.11:80": "pass", "P 10.96.0.10:81": "reject"})
	})
	t.Run("port and frontend are nil", func(t *testing.T) {
		if tr := p.Trace(packet("P", "10.96.0.10:81")); tr.Port != nil || tr.Frontend != nil {
			t.Errorf("port %v, frontend %v, want none", tr.Port, tr.Frontend)
		}
	})
}

func TestOrigin(t *testing.T) {
	cfg := config()
	cfg.PodInterfaces = []string{"veth*", "cni0"}
	p := plan.New(cfg)
	tests := []struct {
		name, source, iface string
		want                plan.Origin
	}{
		{"K19 interface with the prefix", "203.0.113.7", "veth12", plan.FromPod},
		{"K19 the prefix itself", "203.0.113.7", "veth", plan.FromPod},
		{"exact interface", "203.0.113.7", "cni0", plan.FromPod},
		{"an exact name is no prefix", "203.0.113.7", "cni01", plan.FromOutside},
		{"other interface", "203.0.113.7", "eth0", plan.FromOutside},
		{"a pod by its address on another interface", "10.180.3.3", "eth0", plan.FromPod},
		{"the interface comes before the node's address", "192.168.0.2", "veth1", plan.FromPod},
		{"pod of IPv6", "fd00:180::7", "", plan.FromPod},
		{"node", "192.168.0.2", "", plan.FromNode},
		{"node of IPv6", "2001:db8::2", "", plan.FromNode},
		{"loopback", "127.0.0.1", "", plan.FromNode},
		{"loopback of IPv6", "::1", "", plan.FromNode},
		{"another node", "192.168.0.3", "", plan.FromOutside},
		{"pod of another node", "10.181.0.1", "", plan.FromOutside},
		{"IPv4 mapped into IPv6", "::ffff:10.180.0.1", "", plan.FromPod},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := p.Trace(plan.Packet{Source: addr(tt.source), Interface: tt.iface}).Origin
			if got != tt.want {
				t.Errorf("origin is %s, want %s", got, tt.want)
			}
		})
	}
}

func TestDetectors(t *testing.T) {
	cidrs := func(list ...string) plan.Config {
		cfg := config()
		cfg.Node.PodCIDRs = nil
		for _, c := range list {
			cfg.Node.PodCIDRs = append(cfg.Node.PodCIDRs, prefix(c))
		}
		return cfg
	}
	interfaces := cidrs()
	interfaces.PodInterfaces = []string{"veth*"}
	tests := []struct {
		name   string
		cfg    plan.Config
		v4, v6 string // answers to a client outside that dials the ClusterIP
	}{
		{"K16 #67 ranges of both families", cidrs("10.0.0.0/16", "fd00::/48"), "a masq", "a masq"},
		{"K17 E17 no range", cidrs(), "a", "a"},
		{"K18 IPv4 range only", cidrs("10.1.0.0/24"), "a masq", "a"},
		{"K19 interfaces count for both families", interfaces, "a masq", "a masq"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := build(tt.cfg, svc(dualStack), eps("a R"))
			checkPackets(t, p, map[string]string{"X 10.96.0.10:80": tt.v4, "X [fd00:96::10]:80": tt.v6})
		})
	}
}

func TestExceptions(t *testing.T) {
	host := func(e *endpoints.Endpoint) { e.Addr = netip.MustParseAddrPort("192.168.0.2:8080"); e.NodeName = "n1" }
	a, b, h := endpoint("a R loc", v4), endpoint("b R", v4), endpoint("c R loc", v4)
	host(&h)
	set := endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{{Port: "p80", Protocol: tcp, Family: v4}: {a, b, h}})
	p := build(config(), svc(policies("C/C/yes"), externalIP("9.9.9.9")), set)
	text := func(list []*endpoints.Endpoint) string {
		words := make([]string, len(list))
		for i, e := range list {
			words[i] = e.String()
		}
		return strings.Join(words, " ")
	}
	const onA, onHost = "10.180.0.1:8080", "192.168.0.2:8080"
	tests := []struct {
		name, source, dst, exempt, hairpin string
	}{
		{"E18 a pod dials itself", "10.180.0.1", "10.96.0.10:80", "", onA},
		{"fault F02 E18 an endpoint that nobody says to run here", "10.180.0.2", "10.96.0.10:80", "", "10.180.0.2:8080"},
		{"another pod", "P", "10.96.0.10:80", "", ""},
		{"from outside to the node itself", "X", "9.9.9.9:80", onHost, ""},
		{"from a pod to the node itself", "P", "5.5.5.5:80", onHost, ""},
		{"a pod dials itself at an external IP", "10.180.0.1", "9.9.9.9:80", onHost, onA},
		{"the node's own packets are masqueraded", "H", "9.9.9.9:80", "", onHost},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := p.Trace(packet(tt.source, tt.dst))
			if got := text(tr.Exempt); got != tt.exempt {
				t.Errorf("exempt %q, want %q", got, tt.exempt)
			}
			if got := text(tr.Hairpin); got != tt.hairpin {
				t.Errorf("hairpin %q, want %q", got, tt.hairpin)
			}
		})
	}
	t.Run("E19 one endpoint of two Services", func(t *testing.T) {
		two := build(config(), svc(), set, svc(name("ns1/svc2"), clusterIP("10.96.0.11")), set)
		for _, dst := range []string{"10.96.0.10:80", "10.96.0.11:80"} {
			if got := text(two.Trace(packet("10.180.0.1", dst)).Hairpin); got != onA {
				t.Errorf("hairpin at %s is %q, want %q", dst, got, onA)
			}
		}
	})
}

func TestTraceNormalizes(t *testing.T) {
	p := build(config(), svc(), eps("a R"))
	tr := p.Trace(plan.Packet{
		Source: addr("::ffff:10.180.0.99"), Destination: netip.MustParseAddrPort("[::ffff:10.96.0.10]:80"), Protocol: "tcp",
	})
	if got := answer(tr); got != "a" {
		t.Errorf("answer to mapped addresses and a small tcp is %q, want %q", got, "a")
	}
	if got := p.Trace(plan.Packet{}); got.Verdict != plan.Pass || got.Reason == "" {
		t.Errorf("the empty packet: %s (%s), want pass with a reason", got.Verdict, got.Reason)
	}
}

func TestReasons(t *testing.T) {
	cfg := config()
	cfg.ServiceCIDRs = []netip.Prefix{prefix("10.96.0.0/12")}
	local := svc(policies("L/L/yes"), ranges("203.0.113.0/24", "10.180.0.0/16", "192.168.0.2/32"))
	remote, both := build(cfg, local, eps("a R")), build(cfg, local, eps("a R", "b R loc"))
	zone := build(cfg, svc(), eps("a R z:za", "b R z:zb"))
	tests := []struct {
		p                 *plan.Plan
		source, dst, want string
	}{
		{remote, "X", "5.5.5.5:80", "externalTrafficPolicy is Local and node n1 has no endpoint of ns1/svc1:p80"},
		{remote, "P", "10.96.0.10:80", "internalTrafficPolicy is Local and node n1 has no endpoint of ns1/svc1:p80"},
		{remote, "198.51.100.1", "5.5.5.5:80", "198.51.100.1 is not in the source ranges of ns1/svc1:p80"},
		{remote, "P", "5.5.5.5:80", "externalTrafficPolicy is Local, which does not bind clients on the node: endpoints of the whole cluster"},
		{both, "X", "5.5.5.5:80", "externalTrafficPolicy is Local: endpoints of node n1"},
		{build(cfg, local), "X", "5.5.5.5:80", "ns1/svc1:p80 has no usable endpoint"},
		{both, "P", "10.96.0.10:81", "10.96.0.10 is a ClusterIP without this port"},
		{both, "P", "10.96.0.11:80", "10.96.0.11 is in a Service CIDR and no Service has it"},
		{both, "P", "198.51.100.1:80", "no frontend, ClusterIP or Service CIDR matches"},
		{zone, "P", "10.96.0.10:80", "endpoints of the whole cluster; hints choose those for this zone"},
		{zone, "X", "10.96.0.10:80", "endpoints of the whole cluster; hints choose those for this zone; masqueraded because the client is no pod of this node"},
	}
	for _, tt := range tests {
		if got := tt.p.Trace(packet(tt.source, tt.dst)).Reason; got != tt.want {
			t.Errorf("%s > %s: %q, want %q", tt.source, tt.dst, got, tt.want)
		}
	}
}

func TestTwins(t *testing.T) {
	twins := svc(func(s *service.Service) {
		s.Ports = []service.Port{
			{Name: "dns", Protocol: udp, Port: 53}, {Name: "dns-sctp", Protocol: corev1.ProtocolSCTP, Port: 53}, {Name: "dns-tcp", Protocol: tcp, Port: 53},
		}
	})
	set := endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{
		{Port: "dns", Protocol: udp, Family: v4}:                      {endpoint("a R", v4)},
		{Port: "dns-tcp", Protocol: tcp, Family: v4}:                  {endpoint("b R", v4)},
		{Port: "dns-sctp", Protocol: corev1.ProtocolSCTP, Family: v4}: {endpoint("c R", v4)},
	})
	p := build(config(), twins, set)
	t.Run("#17 E45 one number, three protocols", func(t *testing.T) {
		checkPackets(t, p, map[string]string{"P 10.96.0.10:53/udp": "a", "P 10.96.0.10:53/tcp": "b", "P 10.96.0.10:53/sctp": "c"})
	})
	t.Run("#17 the TCP port goes", func(t *testing.T) {
		less := *twins
		less.Ports = twins.Ports[:2]
		after, _ := p.Update(input(&less))
		checkPackets(t, after, map[string]string{"P 10.96.0.10:53/udp": "a", "P 10.96.0.10:53/tcp": "reject", "P 10.96.0.10:53/sctp": "c"})
	})
	t.Run("#28 one address, two ports", func(t *testing.T) {
		x, y := endpoint("a R", v4), endpoint("a R", v4)
		y.Addr = netip.AddrPortFrom(y.Addr.Addr(), 8082)
		p := build(config(), svc(), endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{{Port: "p80", Protocol: tcp, Family: v4}: {x, y}}))
		if got := len(p.Trace(packet("P", "10.96.0.10:80")).Endpoints); got != 2 {
			t.Errorf("%d endpoints, want 2", got)
		}
	})
	t.Run("#29 ports of endpoints match by name only", func(t *testing.T) {
		checkPackets(t, build(config(), svc(), epsOf("other", tcp, "a R")), map[string]string{"P 10.96.0.10:80": "reject"})
		unnamed := svc(func(s *service.Service) { s.Ports[0].Name = "" })
		checkPackets(t, build(config(), unnamed, epsOf("", tcp, "a R")), map[string]string{"P 10.96.0.10:80": "a"})
	})
}
