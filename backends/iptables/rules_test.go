package iptables

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// rulesOf returns the rules of one chain of IPv4, without the comment.
func rulesOf(t *testing.T, p *plan.Plan, o Options, tb table, name string) []string {
	t.Helper()
	o, err := o.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	d := newDialect(families()[0], o)
	d.guardable = true
	edits, err := d.everything(p)
	if err != nil {
		t.Fatal(err)
	}
	w := d.stage(edits)
	for _, s := range []*section{w.deny, w.nat, w.rest} {
		for _, c := range s.fill {
			if s.table == tb && c.name == name {
				return c.rules
			}
		}
	}
	t.Fatalf("no chain %s", name)
	return nil
}

func poolOf(key string) string { return hashed(letterCluster, key) }

func TestPool(t *testing.T) {
	const key = "ns1/svc1:p80 tcp"
	dnat := func(ip string) string { return "-p tcp -j DNAT --to-destination " + ip }
	random := "-m statistic --mode random --probability "
	list := func(ip string) string { return "@" + hashText(key+" "+ip) }
	const mark = "! -s 10.200.1.0/24 -j MARK --or-mark 0x4000"
	a, b := "10.200.1.1:8080", "10.200.1.2:8080"
	seen := func(ip string) string { return "-m recent --name " + list(ip) + " --update --seconds 3600 --reap " }
	set := func(ip string) string { return "-m recent --name " + list(ip) + " --set " }
	tests := []struct {
		name    string
		eps     string
		changes []func(*service.Service)
		want    []string
	}{
		{"F07 F32 three endpoints", "10.0.0.3:80 10.0.0.1:80 10.0.0.2:80", nil, []string{
			mark, random + "0.3333333333 " + dnat("10.0.0.1:80"), random + "0.5000000000 " + dnat("10.0.0.2:80"), dnat("10.0.0.3:80"),
		}},
		{"F08 one endpoint", a, nil, []string{mark, dnat(a)}},
		{"F09 affinity", a + " " + b, []func(*service.Service){affine}, []string{
			mark, seen(a) + dnat(a), seen(b) + dnat(b), random + "0.5000000000 " + set(a) + dnat(a), set(b) + dnat(b),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := planOf(node(), with(app{name: "svc1", vip: vips, eps: tt.eps, changes: tt.changes}))
			if got := rulesOf(t, p, Options{}, nat, poolOf(key)); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestAffinityStaysInThePool is fault #13: a client that the cluster pool sent to a remote
// endpoint is sent to a local one by a Local frontend, and stays there.
func TestAffinityStaysInThePool(t *testing.T) {
	p := planOf(node(), with(app{
		name: "svc1", vip: vips, eps: localEPs + " " + remoteEPs, changes: []func(*service.Service){external, externalLocal, affine},
	}))
	set := parseRules(t, render(t, p, Options{}), "iptables")
	known := make(map[string]bool)
	send := func(dst string) string {
		packet := plan.Packet{Source: addr("198.51.100.4"), Destination: addrPort(dst), Protocol: corev1.ProtocolTCP, Interface: "eth0"}
		tr := newTraveller(p, packet, 2-len(known))
		tr.recent = known
		set.travel(tr, false)
		for _, list := range tr.noted {
			known[list] = true
		}
		return tr.dst.String()
	}
	t.Run("#13", func(t *testing.T) {
		if got := send("10.96.0.50:80"); got != "10.200.2.1" {
			t.Fatalf("the first connection goes to %s", got)
		}
		first := send("203.0.113.40:80")
		if first != "10.200.1.1" && first != "10.200.1.2" {
			t.Errorf("a Local frontend sends to %s", first)
		}
		for range 5 {
			if got := send("192.0.2.10:30080"); got != first {
				t.Errorf("the client moved from %s to %s", first, got)
			}
		}
	})
}

// TestProbabilities draws from the rules of large pools. The kernel rounds a probability
// to a multiple of 2^-31.
func TestProbabilities(t *testing.T) {
	for _, n := range []int{400, 5000} {
		t.Run(fmt.Sprintf("#76 %d endpoints", n), func(t *testing.T) {
			var eps []endpoints.Endpoint
			for i := range n {
				eps = append(eps, endpoints.Endpoint{Addr: netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)}), 80), Ready: true, Serving: true})
			}
			in := with(app{name: "svc1", vip: "10.96.0.50"})
			in.Endpoints[nameOf("svc1")] = endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{
				{Port: "p80", Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}: eps,
			})
			rules := rulesOf(t, planOf(node(), in), Options{}, nat, poolOf("ns1/svc1:p80 tcp"))[1:] // after the mark
			if len(rules) != n || strings.Contains(rules[n-1], "statistic") {
				t.Fatalf("%d rules, the last %q", len(rules), rules[n-1])
			}
			checkProbabilities(t, rules)
		})
	}
}

func checkProbabilities(t *testing.T, rules []string) {
	t.Helper()
	n := len(rules)
	units := make([]uint32, 0, n)
	for i, r := range rules[:n-1] {
		text, _, _ := strings.Cut(strings.TrimPrefix(r, "-m statistic --mode random --probability "), " ")
		p, err := strconv.ParseFloat(text, 64)
		if err != nil || math.Abs(p-1/float64(n-i)) > 1e-10 {
			t.Fatalf("rule %d: probability %q, want 1/%d: %v", i, text, n-i, err)
		}
		unit := uint32(math.Round(p * (1 << 31)))
		if i > 0 && unit <= units[i-1] {
			t.Fatalf("rule %d: probability %s does not grow", i, text)
		}
		units = append(units, unit)
	}
	perEndpoint := 40_000 / n
	counts := make([]int, n)
	r := rand.New(rand.NewPCG(7, 7))
	for range n * perEndpoint {
		i := 0
		for i < n-1 && r.Uint32()>>1 >= units[i] {
			i++
		}
		counts[i]++
	}
	chi := 0.0
	for _, c := range counts {
		chi += float64((c-perEndpoint)*(c-perEndpoint)) / float64(perEndpoint)
	}
	// Mean n-1, deviation sqrt(2(n-1)): five deviations never happen by chance.
	if limit := float64(n-1) + 5*math.Sqrt(2*float64(n-1)); chi > limit {
		t.Errorf("chi square of %d draws is %.0f, want at most %.0f", n*perEndpoint, chi, limit)
	}
}

func TestNames(t *testing.T) {
	t.Run("F01 F02 F03 F06 one name for each Service port", func(t *testing.T) {
		seen := make(map[string]string)
		for _, key := range []string{
			"ns1/svc1:p80 tcp", "ns1/svc1 tcp", "kube-system/kube-dns:dns udp", "kube-system/kube-dns:dns tcp", "default/kubernetes:https tcp",
		} {
			name := poolOf(key)
			if seen[name] != "" || len("NINELONG9-"+name) > 28 {
				t.Errorf("%q and %q are both called %s", key, seen[name], name)
			}
			seen[name] = key
		}
	})
	t.Run("F04 F05 one list of clients for each endpoint", func(t *testing.T) {
		p := planOf(node(), with(app{name: "svc1", vip: vips, eps: localEPs + " " + remoteEPs, changes: []func(*service.Service){affine}}))
		lists := make(map[string]int)
		for f := range strings.FieldsSeq(render(t, p, Options{})) {
			if rest, ok := strings.CutPrefix(f, "VIPKIT-"); ok && len(rest) == 16 && !strings.Contains(rest, "-") {
				lists[rest]++
			}
		}
		if len(lists) != 5 {
			t.Errorf("%d lists for 5 endpoints: %v", len(lists), lists)
		}
	})
	t.Run("F24 the longest names fit into a comment", func(t *testing.T) {
		long := strings.Repeat("x", 63)
		c := chain{name: "S-1", about: long + "/" + long + ":" + long + " tcp \"' \n" + long, rules: []string{doDrop}}
		line := c.text("VIPKIT")[0]
		comment, target := inspect(line)
		if len(comment) > 255 || target != "DROP" || strings.ContainsAny(comment, "\n'") {
			t.Errorf("line %q", line)
		}
	})
}

func TestHealthCheckPortIsAccepted(t *testing.T) {
	health := func(port uint16) func(*service.Service) {
		return func(s *service.Service) { external(s); s.ExternalLocal, s.HealthCheckNodePort = true, port }
	}
	t.Run("F17", func(t *testing.T) {
		p := planOf(node(), with(app{name: "svc1", vip: vips, changes: []func(*service.Service){health(31000)}}))
		want := []string{"-p tcp -m tcp --dport 31000 -j ACCEPT"}
		if got := rulesOf(t, p, Options{}, filter, chainHealth); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

func TestNodePortAddresses(t *testing.T) {
	jump := "-j @PORTS"
	tests := []struct {
		name     string
		selector plan.NodePortSelector
		opts     Options
		family   int
		want     []string
	}{
		{"F18 F19 everywhere", plan.NodePortSelector{All: true}, Options{}, 0, []string{
			"-d 127.0.0.0/8 -j RETURN", "-d 169.254.0.0/16 -j RETURN", "-m addrtype --dst-type LOCAL " + jump,
		}},
		{"F18 everywhere, with localhost", plan.NodePortSelector{All: true, Localhost: true}, Options{LocalhostNodePorts: true}, 0, []string{
			"-d 127.0.0.0/8 -m addrtype --dst-type LOCAL " + jump,
			"-d 127.0.0.0/8 -j RETURN", "-d 169.254.0.0/16 -j RETURN", "-m addrtype --dst-type LOCAL " + jump,
		}},
		{"F20 IPv6 everywhere", plan.NodePortSelector{All: true, Localhost: true}, Options{LocalhostNodePorts: true}, 1, []string{
			"-d ::1/128 -j RETURN", "-d fe80::/10 -j RETURN", "-m addrtype --dst-type LOCAL " + jump,
		}},
		{"#61 primary", plan.NodePortSelector{}, Options{}, 0, []string{"-d 192.0.2.10/32 " + jump}},
		{"F21 #61 by range", plan.NodePortSelector{Prefixes: []netip.Prefix{prefix("192.0.2.0/24")}}, Options{}, 0, []string{"-d 192.0.2.10/32 " + jump}},
		{"#61 by range of the other family", plan.NodePortSelector{Prefixes: []netip.Prefix{prefix("192.0.2.0/24")}}, Options{}, 1, nil},
		{"F22 localhost only", plan.NodePortSelector{Localhost: true}, Options{LocalhostNodePorts: true}, 0, []string{
			"-d 127.0.0.0/8 -m addrtype --dst-type LOCAL " + jump,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			cfg := node()
			cfg.NodePortAddresses = tt.selector
			l := newLayout(families()[tt.family], tt.opts, plan.New(cfg))
			if got := l.perNodePortAddress(jump); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestRejectOfNodePortLeavesOtherSocketsAlone is fault #62: a server of the node listens on
// the number of a NodePort, at an address that serves none.
func TestRejectOfNodePortLeavesOtherSocketsAlone(t *testing.T) {
	p := planOf(node(), with(app{name: "svc1", vip: vips, changes: []func(*service.Service){external}}))
	set := parseRules(t, render(t, p, Options{}), "iptables")
	for dst, want := range map[string]string{"192.0.2.10:30080": "reject", "172.17.0.1:30080": "pass", "127.0.0.1:30080": "pass"} {
		t.Run("#62 "+dst, func(t *testing.T) {
			packet := plan.Packet{Source: addr("198.51.100.4"), Destination: addrPort(dst), Protocol: corev1.ProtocolTCP, Interface: "eth0"}
			if got := follow(set, p, packet); got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}

func TestEstablishedFlowsPass(t *testing.T) {
	p := planOf(node(), with(app{name: "svc1", vip: vips, changes: []func(*service.Service){external}}))
	set := parseRules(t, render(t, p, Options{}), "iptables")
	tr := newTraveller(p, plan.Packet{Source: addr("198.51.100.4"), Destination: addrPort("203.0.113.40:80"), Protocol: corev1.ProtocolTCP, Interface: "eth0"}, 0)
	tr.known = true
	if set.enter("filter", "FORWARD", tr); tr.verdict != "" {
		t.Errorf("a packet of an established flow: %s", tr.verdict)
	}
}

func TestInvalidPackets(t *testing.T) {
	for value, want := range map[string]bool{"0": true, "1": false} {
		t.Run("F23 be_liberal "+value, func(t *testing.T) {
			k := newFakeKernel()
			k.sysctls[beLiberal] = value
			newStory(t, node()).sync(k.backend(t, Options{DropInvalid: true}), many(1, 1))
			first := k.tables["iptables filter"]["VIPKIT-FORWARD"][0]
			if got := strings.HasSuffix(first, "--ctstate INVALID -j DROP"); got != want {
				t.Errorf("INVALID is dropped: %t, want %t", got, want)
			}
		})
	}
}

func TestMark(t *testing.T) {
	t.Run("F33 another bit", func(t *testing.T) {
		p := planOf(node(), with(app{name: "svc1", vip: vips, eps: remoteEPs, changes: []func(*service.Service){external}}))
		text := render(t, p, Options{MasqueradeMark: 0x10})
		for _, want := range []string{"--or-mark 0x10\n", "--xor-mark 0x10\n", "! --mark 0x10/0x10 -j RETURN\n", "--mark 0x10/0x10 -j ACCEPT\n"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q", want)
			}
		}
		if strings.Contains(text, "0x4000") {
			t.Error("the default bit is used too")
		}
	})
}
