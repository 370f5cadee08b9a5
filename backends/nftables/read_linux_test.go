package nftables

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// adopted brings a plan to the kernel with a new backend, wants nothing left to do, and returns
// the transactions.
func (w *world) adopted(opts Options) *recorder {
	w.tb.Helper()
	b := newBackend(w.tb, opts)
	r := record(b)
	w.restart(b)
	w.wantSettled(opts)
	return r
}

func TestAdoptEqual(t *testing.T) {
	inNetNS(t)
	w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
	w.sync(b, with(everything()...))
	before := nft(t, "list", "ruleset")
	for _, line := range w.adopted(Options{}).written() {
		t.Errorf("E36 a restart over equal rules writes %s", line)
	}
	if after := nft(t, "list", "ruleset"); after != before {
		t.Error("E36 a restart over equal rules changed them")
	}
}

func TestAdoptDifferent(t *testing.T) {
	inNetNS(t)
	w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
	w.sync(b, with(everything()...))
	steps := []struct {
		name string
		in   plan.Input
		want string // is in the ruleset then
	}{
		{"#9 node port addresses wider", plan.Input{Config: twoAddresses(func(c *plan.Config) { c.NodePortAddresses.All = true })}, "fib daddr type local"},
		{"#9 policy Local becomes Cluster", with(app{name: "local", vip: "10.96.0.14", eps: two, change: externals}), "10.96.0.14 . tcp . 80 comment \"ns1/local:p80\" : goto row-cCC"},
		{"#9 the last endpoint goes", with(app{name: "plain", vip: "10.96.0.10"}), "10.96.0.10 . tcp . 80 comment \"ns1/plain:p80\" : goto refuse"},
		{"#9 the only endpoint is another", with(app{name: "plain", vip: "10.96.0.10", eps: "10.180.1.9:80"}), "10.96.0.10 . 80 . 0 : 10.180.1.9 . 80"},
		{"#9 timeout while stopped", with(app{name: "sticky", vip: "10.96.0.13", eps: two, change: both(affine, func(s *service.Service) { s.AffinityTimeout /= 3 })}), "timeout 1h"},
		{"E37 zone of the node", plan.Input{Config: twoAddresses(func(c *plan.Config) { c.Node.Zone = "z2" })}, "10.180.0.0/24"},
	}
	for _, s := range steps {
		w.update(s.in) // while no proxy runs
		r := w.adopted(Options{})
		if len(r.texts) > 2 || strings.Contains(strings.Join(r.texts, ""), "delete table") {
			t.Errorf("%s: %d transactions, or the table was replaced", s.name, len(r.texts))
		}
		if out := nft(t, "list", "ruleset"); !strings.Contains(out, s.want) {
			t.Errorf("%s: no %q in\n%s", s.name, s.want, out)
		}
	}
}

// TestAdoptLeftovers puts something of an earlier version or somebody else into the table.
func TestAdoptLeftovers(t *testing.T) {
	inNetNS(t)
	w := newWorld(t, nodeConfig())
	w.sync(newBackend(t, Options{}), with(everything()...))
	tests := []struct {
		name     string
		leave    []string // statements
		replaced bool
	}{
		{"table of nobody", []string{"delete table ip vipkit", "add table ip vipkit"}, true},
		{"base chain at another priority", []string{
			"flush chain ip vipkit filter-input", "delete chain ip vipkit filter-input",
			"add chain ip vipkit filter-input { type filter hook input priority -5 ; }",
		}, true},
		{"map of another kind", []string{
			"delete table ip vipkit", "add table ip vipkit", "add map ip vipkit service-ips { type ipv4_addr : verdict ; }",
			"add chain ip vipkit x", "add element ip vipkit service-ips { 10.96.0.10 : goto x }",
		}, true},
		{"map with another type of key, and all else in place", []string{
			"flush chain ip vipkit nodeports", "delete map ip vipkit service-nodeports",
			"add map ip vipkit service-nodeports { type inet_service : verdict ; }",
		}, true},
		{"stale chain with a rule", []string{"add chain ip vipkit service-old", "add rule ip vipkit service-old drop"}, false},
		{"stale verdict", []string{
			"add chain ip vipkit service-old", "delete element ip vipkit service-ips { 10.96.0.10 . tcp . 80 }",
			"add element ip vipkit service-ips { 10.96.0.10 . tcp . 80 : goto service-old }",
		}, false},
		{"#82 elements of nobody, sets with ranges and comments", []string{
			"add element ip vipkit allowed-sources { 1.2.3.4 . tcp . 80 . 10.0.0.0/8 comment \"x\" }",
			"add element ip vipkit pod-cidrs { 10.99.0.0/16, 10.98.0.7 }",
			"add element ip vipkit cluster-ips { 10.99.0.1 comment \"y\" }",
			"add set ip vipkit old { type ipv4_addr . ipv4_addr ; flags interval,timeout ; counter ; }",
			"add element ip vipkit old { 192.0.2.1 . 198.51.100.0/24 timeout 60s }",
			"add map ip vipkit old-map { typeof ip saddr : meta mark ; }",
		}, false},
		{"rule of nobody in a chain of ours", []string{"insert rule ip vipkit services counter drop"}, false},
		{"#83 shared chain changed", []string{"flush chain ip vipkit pick-tcp-16"}, false},
		{"#83 nothing leads to a shared chain", []string{"delete element ip vipkit picks { tcp . 0:2, tcp . 0:f }"}, false},
		{"#83 something else leads to a shared chain", []string{
			"delete element ip vipkit picks { tcp . 0:2, tcp . 0:e }",
			"add element ip vipkit picks { tcp . 0:2 : goto pick-tcp-1, tcp . 0:e : drop, udp . 0:1 : drop }",
		}, false},
	}
	for _, tt := range tests {
		for _, s := range tt.leave {
			nft(t, s)
		}
		r := w.adopted(Options{})
		if got := strings.Contains(strings.Join(r.texts, ""), "delete table ip "); got != tt.replaced {
			t.Errorf("%s: replaced %v, want %v", tt.name, got, tt.replaced)
		}
		if n := len(r.texts); n == 0 || n > 2 {
			t.Errorf("%s: %d transactions, want one or two", tt.name, n)
		}
	}
}

// TestAdoptDuplicates leaves one identifier with two endpoints, as a broken writer might.
func TestAdoptDuplicates(t *testing.T) {
	inNetNS(t)
	w := newWorld(t, nodeConfig())
	w.sync(newBackend(t, Options{}), with(everything()...))
	n := namesOf(plan.Key{PortName: service.PortName{NamespacedName: nameOf("sticky-local"), Port: "p80", Protocol: corev1.ProtocolTCP}})
	here, there := addrPort("10.180.0.1:8080"), addrPort("10.180.1.1:8080")
	local := "ip vipkit " + string(n) + suffixAliveLocal
	nft(t, fmt.Sprintf("delete element %s { %#x }", local, idOf(here)))
	nft(t, fmt.Sprintf("add element %s { %#x comment %q : goto %s }", local, idOf(there), here, n.endpoint(idOf(there))))
	slot := "ip vipkit " + string(n) + suffixSlotsLocal
	nft(t, "delete element "+slot+" { 0 }")
	nft(t, fmt.Sprintf("add element %s { 0 : goto %s }", slot, n.fresh(idOf(there))))
	if r := w.adopted(Options{}); len(r.texts) != 1 {
		t.Errorf("#79 two endpoints with one id: %d transactions, want one", len(r.texts))
	}
	chains := nft(t, "list", "table", "ip", "vipkit")
	for _, dst := range []netip.AddrPort{here, there} {
		want := "dnat to " + dst.String()
		if at := strings.Index(chains, "chain "+string(n)+"-endpoint-"); at < 0 || !strings.Contains(chains[at:], want) {
			t.Errorf("#79 no chain of the Service port has %q", want)
		}
	}

	// The same endpoint in two slots of an ordinary Service port, and another in none.
	nft(t, "delete element ip vipkit endpoints-tcp { 10.96.0.10 . 80 . 1 }")
	first := nft(t, "get", "element", "ip", "vipkit", "endpoints-tcp", "{ 10.96.0.10 . 80 . 0 }")
	twice := "10.180.0.1 . 8080"
	if strings.Contains(first, "10.180.1.1 . 8080") {
		twice = "10.180.1.1 . 8080"
	}
	nft(t, "add element ip vipkit endpoints-tcp { 10.96.0.10 . 80 . 1 : "+twice+" }")
	w.adopted(Options{})
	out := nft(t, "list", "map", "ip", "vipkit", "endpoints-tcp")
	for _, dst := range []string{"10.180.0.1", "10.180.1.1"} {
		if c := len(regexp.MustCompile(`10\.96\.0\.10 \. 80 \. [01] : `+regexp.QuoteMeta(dst)+` `).FindAllString(out, -1)); c != 1 {
			t.Errorf("#79 %s is in %d slots, want one:\n%s", dst, c, out)
		}
	}
}

func TestAdoptOtherOptions(t *testing.T) {
	inNetNS(t)
	w := newWorld(t, nodeConfig())
	w.sync(newBackend(t, Options{}), with(everything()...))
	r := w.adopted(Options{MasqueradeMark: 0x10000})
	if n := len(r.texts); n != 1 {
		t.Errorf("#9 another mark: %d transactions, want 1: no moment without rules", n)
	}
	if out := nft(t, "list", "ruleset"); strings.Contains(out, "0x00004000") {
		t.Error("#9 rules with the old mark are left")
	}
}

func TestForeignTables(t *testing.T) {
	inNetNS(t)
	foreign := []string{
		"add table ip kube-proxy", "add chain ip kube-proxy services", "add table inet vipkit",
		"add map ip kube-proxy service-ips { type ipv4_addr . inet_proto . inet_service : verdict ; }",
		"add element ip kube-proxy service-ips { 10.96.0.10 . tcp . 80 : goto services }",
		"add table ip nat", "add chain ip nat KUBE-SERVICES",
		"add table ip odd", "add set ip odd s { typeof ip saddr . tcp dport . meta mark ; flags dynamic,timeout ; size 10 ; }",
		"add map ip odd m { typeof numgen random mod 2 : ip daddr . tcp dport ; }", "add element ip odd m { 0 : 10.0.0.1 . 80 }",
	}
	for _, s := range foreign {
		nft(t, s)
	}
	before := nft(t, "list", "ruleset")
	w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
	w.sync(b, with(everything()...))
	w.adopted(Options{})
	warnings := strings.Join(b.Warnings(t.Context(), w.plan), "\n")
	for _, want := range []string{"table ip kube-proxy exists", "table ip nat has chains KUBE-"} {
		if !strings.Contains(warnings, want) {
			t.Errorf("no warning %q in %q", want, warnings)
		}
	}
	if err := newBackend(t, Options{}).Cleanup(t.Context()); err != nil {
		t.Error(err)
	}
	if after := nft(t, "list", "ruleset"); after != before {
		t.Errorf("#64 foreign tables differ after Cleanup: before\n%s\nafter\n%s", before, after)
	}
	if err := b.Cleanup(t.Context()); err != nil {
		t.Errorf("Cleanup of nothing: %v", err)
	}
}
