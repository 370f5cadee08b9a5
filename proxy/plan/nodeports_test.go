package plan_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

func selector(t *testing.T, values ...string) plan.NodePortSelector {
	t.Helper()
	s, err := plan.ParseNodePortSelector(values)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func nodeWith(addrs ...string) plan.Config {
	cfg := config()
	cfg.Node.Addresses = nil
	for _, a := range addrs {
		cfg.Node.Addresses = append(cfg.Node.Addresses, addr(a))
	}
	return cfg
}

func TestNodePortAddresses(t *testing.T) {
	const anyLocal = "any local address"
	both := []string{"10.0.0.5", "192.168.0.2", "fd00::5", "2001:db8::2"}
	tests := []struct {
		name             string
		values           string
		node             []string
		v4, v6, problems string
	}{
		{name: "nothing given is primary", node: both, v4: "10.0.0.5", v6: "fd00::5"},
		{name: "K01 all", values: "all", node: both, v4: anyLocal, v6: anyLocal},
		{name: "K02 E20 #61 a CIDR", values: "10.0.0.0/8", node: both, v4: "10.0.0.5", v6: "-", problems: "nodePortAddresses IPv6"},
		{name: "K03 #61 no entry for a family", values: "fd00::/8", node: both, v4: "-", v6: "fd00::5", problems: "nodePortAddresses IPv4"},
		{name: "K04 E21 #61 a CIDR of length zero is all of its family", values: "10.0.0.0/8 0.0.0.0/0", node: both, v4: anyLocal, v6: "-", problems: "nodePortAddresses IPv6"},
		{name: "K04 both zero CIDRs", values: "0.0.0.0/0 ::/0", node: both, v4: anyLocal, v6: anyLocal},
		{name: "K05 E22 loopback by name", values: "127.0.0.0/8 ::1/128", node: both, v4: "127.0.0.0/8", v6: "::1/128"},
		{name: "K06 two CIDRs choose one address", values: "10.0.0.5/32 10.0.0.0/24 fd00::/64", node: both, v4: "10.0.0.5", v6: "fd00::5"},
		{name: "K07 #61 primary", values: "primary", node: both, v4: "10.0.0.5", v6: "fd00::5"},
		{name: "K08 primary of IPv4 only", values: "primary", node: []string{"10.0.0.5"}, v4: "10.0.0.5", v6: "-", problems: "status.addresses IPv6"},
		{name: "K09 primary without node addresses", values: "primary", v4: "-", v6: "-", problems: "status.addresses IPv4, status.addresses IPv6"},
		{name: "K09 primary of loopback", values: "primary", node: []string{"127.0.0.1", "::1"}, v4: "-", v6: "-", problems: "status.addresses IPv4, status.addresses IPv6"},
		{name: "K10 primary and a CIDR", values: "primary 192.168.0.0/16", node: both, v4: "10.0.0.5 192.168.0.2", v6: "fd00::5"},
		{name: "K11 primary and localhost", values: "primary localhost", node: both, v4: "10.0.0.5 127.0.0.0/8", v6: "fd00::5 ::1/128"},
		{name: "K11 localhost serves where primary does not", values: "primary localhost", node: []string{"10.0.0.5"}, v4: "10.0.0.5 127.0.0.0/8", v6: "::1/128"},
		{name: "localhost alone", values: "localhost", node: both, v4: "127.0.0.0/8", v6: "::1/128"},
		{name: "E23 a CIDR that chooses nothing", values: "172.16.0.0/12 fd00::/64", node: both, v4: "-", v6: "fd00::5"},
		{name: "link-local only by name", values: "0.0.0.0/0 fe80::/10", node: []string{"169.254.7.7", "10.0.0.5", "fe80::1", "fd00::5"}, v4: anyLocal, v6: "fe80::1"},
		{name: "a wide CIDR does not name link-local", values: "168.0.0.0/6 f000::/4", node: []string{"169.254.7.7", "fe80::1", "fd00::5"}, v4: "-", v6: "fd00::5"},
		{name: "all and a link-local range", values: "all 169.254.0.0/16", node: []string{"169.254.7.7", "10.0.0.5"}, v4: anyLocal + " 169.254.7.7", v6: anyLocal},
		{name: "fault F07 a CIDR that contains localhost", values: "126.0.0.0/7 ::/64", node: both, v4: "127.0.0.0/8", v6: "::1/128"},
		{name: "fault F07 and addresses of the node", values: "0.0.0.0/1 8000::/1", node: both, v4: "10.0.0.5 127.0.0.0/8", v6: "fd00::5"},
		{name: "fault F07 a part of loopback serves as it is", values: "127.0.0.53/32 ::/0", node: both, v4: "127.0.0.53/32", v6: anyLocal},
		{name: "leading zeros are decimal", values: "010.0.0.0/08", node: both, v4: "10.0.0.5", v6: "-", problems: "nodePortAddresses IPv6"},
		{name: "a mapped CIDR", values: "::ffff:10.0.0.0/104 ::/0", node: both, v4: "10.0.0.5", v6: anyLocal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := nodeWith(tt.node...)
			cfg.NodePortAddresses = selector(t, strings.Fields(tt.values)...)
			p := build(cfg, svc(dualStack, nodePort(30080)), eps("a R"))
			got := [2]string{fmt.Sprint(p.NodePortAddresses(v4)), fmt.Sprint(p.NodePortAddresses(v6))}
			if want := [2]string{tt.v4, tt.v6}; got != want {
				t.Errorf("addresses are %q, want %q", got, want)
			}
			checkProblems(t, p, tt.problems)
			for i, f := range []corev1.IPFamily{v4, v6} {
				if port, _ := p.LookupNodePort(f, 30080, tcp); (port != nil) != (got[i] != "-") {
					t.Errorf("NodePort in %s: %v, addresses %s", f, port, got[i])
				}
			}
		})
	}
}

// checkProblems compares problems of NodePorts, written as "field family, field family".
func checkProblems(t *testing.T, p *plan.Plan, want string) {
	t.Helper()
	var words []string
	for _, pr := range p.Problems() {
		if pr.Field == "metadata.name" {
			continue // see TestNameOfTheNode
		}
		f := v4
		if strings.Contains(pr.Err, string(v6)) {
			f = v6
		}
		words = append(words, fmt.Sprintf("%s %s", pr.Field, f))
		if pr.Object != "Node n1" {
			t.Errorf("problem of %q, want Node n1", pr.Object)
		}
	}
	if got := strings.Join(words, ", "); got != want {
		t.Errorf("problems are %q, want %q", got, want)
	}
}

func TestProblemsNeedANodePort(t *testing.T) {
	cfg := nodeWith("10.0.0.5")
	p := build(cfg, svc(dualStack), eps("a R"))
	checkProblems(t, p, "")
	p, _ = p.Update(input(svc(dualStack, nodePort(30080))))
	checkProblems(t, p, "status.addresses IPv6")
	p, _ = p.Update(input(svc(nodePort(30080))))
	checkProblems(t, p, "")
	p, _ = p.Update(input(svc(dualStack, nodePort(30081))))
	checkProblems(t, p, "status.addresses IPv6")
	p, _ = p.Update(plan.Input{Services: map[types.NamespacedName]*service.Service{named("ns1/svc1"): nil}})
	checkProblems(t, p, "")
}

func TestParseNodePortSelector(t *testing.T) {
	for _, bad := range []string{"10.0.0.1", "ALL", "", "10.0.0.0/33", "eth0"} {
		_, err := plan.ParseNodePortSelector([]string{"primary", bad})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("%q", bad)) {
			t.Errorf("error for %q is %v, want one that names it", bad, err)
		}
	}
	if s := selector(t, "10.1.2.3/8"); s.Prefixes[0] != prefix("10.0.0.0/8") {
		t.Errorf("host bits are left: %s", s.Prefixes[0])
	}
}

func TestTraceNodePort(t *testing.T) {
	tests := []struct {
		name, values string
		want         map[string]string
	}{
		{"#61 primary", "primary", map[string]string{
			"X 10.0.0.5:30080": "a masq", "X 192.168.0.2:30080": "pass", "X 172.17.0.1:30080": "pass", "H 127.0.0.1:30080": "pass", "X [fd00::5]:30080": "a masq",
		}},
		{"K02 #61 a CIDR", "192.168.0.0/16", map[string]string{"X 10.0.0.5:30080": "pass", "X 192.168.0.2:30080": "a masq", "X [fd00::5]:30080": "pass"}},
		{"K01 E21 #61 all", "all", map[string]string{
			"X 10.0.0.5:30080": "a masq", "X 192.168.0.2:30080": "a masq", "X 172.17.0.1:30080": "a masq", "H 127.0.0.1:30080": "pass", "X 169.254.7.7:30080": "pass", "X 203.0.113.10:30080": "pass",
		}},
		{"K11 localhost", "primary localhost", map[string]string{"X 10.0.0.5:30080": "a masq", "127.0.0.1 127.0.0.1:30080": "a masq", "127.0.0.1 127.0.0.5:30080": "a masq", "::1 [::1]:30080": "a masq"}},
		{"E22 E21 all does not name loopback", "0.0.0.0/0", map[string]string{"127.0.0.1 127.0.0.1:30080": "pass"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := nodeWith("10.0.0.5", "192.168.0.2", "172.17.0.1", "169.254.7.7", "fd00::5")
			cfg.NodePortAddresses = selector(t, strings.Fields(tt.values)...)
			checkPackets(t, build(cfg, svc(dualStack, nodePort(30080)), eps("a R")), tt.want)
		})
	}
	t.Run("#62 reject only where the node port is served", func(t *testing.T) {
		p := build(nodeWith("10.0.0.5", "203.0.113.10"), svc(nodePort(32445)))
		checkPackets(t, p, map[string]string{"X 10.0.0.5:32445": "reject", "X 203.0.113.10:32445": "pass"})
	})
	t.Run("an exact address beats a node port", func(t *testing.T) {
		p := build(nodeWith("10.0.0.5"),
			svc(nodePort(30080)), eps("a R"),
			svc(name("ns1/svc2"), clusterIP("10.96.0.11"), externalIP("10.0.0.5"), port(30080)), eps("b R"))
		checkPackets(t, p, map[string]string{"X 10.0.0.5:30080": "b masq"})
	})
	t.Run("one family without node ports keeps the rest #67", func(t *testing.T) {
		p := build(nodeWith("10.0.0.5"), svc(dualStack, nodePort(30080)), eps("a R"))
		checkPackets(t, p, map[string]string{"X 10.0.0.5:30080": "a masq", "P [fd00:96::10]:80": "a"})
	})
}

func TestNodePortAddressesAreSorted(t *testing.T) {
	cfg := nodeWith("10.0.0.9", "10.0.0.10", "10.0.0.1")
	cfg.NodePortAddresses = selector(t, "10.0.0.0/24")
	got := plan.New(cfg).NodePortAddresses(v4).Addrs
	if want := []netip.Addr{addr("10.0.0.1"), addr("10.0.0.9"), addr("10.0.0.10")}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("addresses are %v, want %v", got, want)
	}
}
