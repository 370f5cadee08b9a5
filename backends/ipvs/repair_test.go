package ipvs

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy/plan"
)

func TestCheck(t *testing.T) {
	w := newWorld(t, Options{})
	w.sync(with(app{name: "web", vip: "10.96.0.10", eps: both}))
	if changed, err := w.backend.Check(t.Context()); len(changed) > 0 || err != nil {
		t.Errorf("Check() = %q, %v, want nothing", changed, err)
	}
	for name, harm := range map[string]func() error{
		"address":        func() error { return w.links.unbind(addr("10.96.0.10")) },
		"virtual server": func() error { return w.kernel.DeleteServer(site{addrPort("10.96.0.10:80"), corev1.ProtocolTCP}.key()) },
		"table": func() error {
			tx := w.nft.NewTransaction()
			tx.Delete(&knftables.Table{})
			return w.nft.Run(t.Context(), tx)
		},
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		if changed, err := w.backend.Check(t.Context()); len(changed) == 0 || err != nil {
			t.Errorf("%s removed: Check() = %q, %v, want a change", name, changed, err)
		}
		w.cursor.Reset()
		w.sync(plan.Input{})
		if changed, err := w.backend.Check(t.Context()); len(changed) > 0 || err != nil {
			t.Errorf("%s repaired: Check() = %q, %v, want nothing", name, changed, err)
		}
	}
}

// Whatever request fails, the error is returned, and one more Sync makes it right.
func TestSyncAfterFailure(t *testing.T) {
	broken := errors.New("broken")
	first := []app{{name: "web", vip: "10.96.0.10", eps: both}, {name: "old", vip: "10.96.0.11", eps: both}}
	second := []app{{name: "web", vip: "10.96.0.10", eps: there, change: local(external("198.51.100.9"))}, {name: "new", vip: "10.96.0.12", eps: here}}
	fresh := newWorld(t, Options{})
	fresh.sync(with(second...))
	for n := 1; ; n++ {
		w := newWorld(t, Options{})
		w.sync(with(first...))
		count := 0
		w.kernel.Fail(func(string) error {
			if count++; count == n {
				return broken
			}
			return nil
		})
		in := with(second...)
		in.Services[nameOf("old")], in.Endpoints[nameOf("old")] = nil, nil
		err := w.try(in)
		w.kernel.Fail(nil)
		if err == nil {
			if n < 8 {
				t.Errorf("only %d requests could fail", n-1)
			}
			return
		}
		if !errors.Is(err, broken) {
			t.Fatalf("G26 failure %d: got %v, want %v", n, err, broken)
		}
		w.sync(plan.Input{})
		w.wantServers(fresh.servers())
		w.wantBound("10.96.0.10", "10.96.0.12", "198.51.100.9")
		for _, name := range []string{"frontends-4", "deny-outside-4", "cluster-ips-4"} {
			w.wantBox(name, fresh.box(name)...)
		}
	}
}

// One changed endpoint costs the same with many Services as with few.
func TestCostOfOneChange(t *testing.T) {
	cost := func(n int) (_ backends.Stats, requests int) {
		w := newWorld(t, Options{})
		var apps []app
		for i := range n {
			vip := netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})
			apps = append(apps, app{name: "s" + vip.String(), vip: vip.String(), eps: there})
		}
		w.sync(with(apps...))
		apps[0].eps += " 10.180.1.2:8080@n2"
		before := w.kernel.Requests()
		stats := w.sync(with(apps[0]))
		stats.Duration = 0
		return stats, w.kernel.Requests() - before
	}
	want := backends.Stats{Changes: 1, Written: 1, Commits: 1}
	for _, n := range []int{2, 500} {
		if got, requests := cost(n); got != want || requests != 2 {
			t.Errorf("one endpoint more among %d Services: %+v and %d requests, want %+v and two", n, got, requests, want)
		}
	}
}

func TestRules(t *testing.T) {
	w := newWorld(t, Options{})
	w.config.PodInterfaces = []string{"veth*", "bad name"}
	w.sync(with(app{name: "web", vip: "10.96.0.10", eps: both}))
	dump := w.fake.Dump()
	for name, want := range map[string]string{
		"G22 unused ports of bound addresses": "add rule inet vipkit-ipvs filter-outside meta l4proto { tcp, udp, sctp } ip daddr @cluster-ips-4 goto refuse",
		"G22 the node's own packets":          "add rule inet vipkit-ipvs filter-node meta l4proto { tcp, udp, sctp } ip daddr @bound-4 goto refuse",
		"pods by interface":                   `add rule inet vipkit-ipvs filter-input iifname "veth*" goto filter-pod`,
		"before IPVS takes the node's":        "hook output priority -110",
		"whole mark for pods":                 "add rule inet vipkit-ipvs mark-pod meta mark set ip daddr . meta l4proto . th dport map @pool-pod-4",
		"#75 hairpin":                         `add rule inet vipkit-ipvs nat-postrouting oifname != "lo" meta nfproto ipv4 jump hairpin-4`,
		"#74 IPv6 source ranges":              "add set inet vipkit-ipvs allowed-6 { type ipv6_addr . inet_proto . inet_service . ipv6_addr ; flags interval ; }",
	} {
		if !strings.Contains(dump, want) {
			t.Errorf("%s: no %q", name, want)
		}
	}
	if strings.Contains(dump, "bad name") {
		t.Error("an interface that cannot exist is in a rule")
	}
	if got := strings.Join(w.backend.Warnings(t.Context(), w.plan), "\n"); !strings.Contains(got, "bad name") {
		t.Errorf("warnings do not name the interface: %s", got)
	}
}
