package ipvs_test

import (
	"errors"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/proxy/plan"
)

func TestCheck(t *testing.T) {
	w := newWorld(t, ipvs.Options{})
	w.sync(with(app{name: "web", vip: "10.96.0.10", eps: both}))
	if changed, err := w.backend.Check(t.Context()); len(changed) > 0 || err != nil {
		t.Errorf("Check() = %q, %v, want nothing", changed, err)
	}
	element := func(verb func(*knftables.Transaction, knftables.Object), set string, words ...string) error {
		tx := w.nft.NewTransaction()
		verb(tx, &knftables.Element{Set: set, Key: words})
		return w.nft.Run(t.Context(), tx)
	}
	k := tcp("10.96.0.10:80")
	for name, harm := range map[string]func() error{
		"bound address 10.96.0.10": func() error { return ipvs.Unbind(w.links, addr("10.96.0.10")) },
		"virtual server":           func() error { return w.ipvs.DeleteServer(k) },
		"virtual server TCP":       func() error { return w.ipvs.DeleteReal(k, addrPort("10.180.0.1:8080")) },
		"virtual server TCP 10":    func() error { return w.ipvs.SetServer(ipvs.VirtualServer{ServerKey: k, Scheduler: "sh"}) },
		"changed: virtual server TCP 10.96.0.10:80": func() error {
			return element((*knftables.Transaction).Delete, "masquerade-outside-4", "10.96.0.10", "tcp", "80")
		},
		"cluster-ips-4 10.96.0.10": func() error { return element((*knftables.Transaction).Delete, "cluster-ips-4", "10.96.0.10") },
		"cluster-ips-4 10.96.0.66": func() error { return element((*knftables.Transaction).Add, "cluster-ips-4", "10.96.0.66") },
		"bound address": func() error { //nolint:unparam // as the others
			w.other(addr("10.96.0.10"))
			return nil
		},
		"rules of the table": func() error {
			tx := w.nft.NewTransaction()
			tx.Flush(&knftables.Chain{Name: "filter-input"})
			return w.nft.Run(t.Context(), tx)
		},
		"rules": func() error {
			tx := w.nft.NewTransaction()
			tx.Delete(&knftables.Table{})
			return w.nft.Run(t.Context(), tx)
		},
	} {
		if err := harm(); err != nil {
			t.Fatal(err)
		}
		if changed, err := w.backend.Check(t.Context()); !strings.Contains(strings.Join(changed, ", "), name) || err != nil {
			t.Errorf("%s: Check() = %q, %v, want it named", name, changed, err)
		}
		w.addrs.Rest = nil
		w.cursor.Reset()
		w.sync(plan.Input{})
		if changed, err := w.backend.Check(t.Context()); len(changed) > 0 || err != nil {
			t.Errorf("%s, repaired: Check() = %q, %v, want nothing", name, changed, err)
		}
	}
}

// failNth lets the nth request of anything below the Backend fail, and counts them.
func (w *world) failNth(n int, with error) (count *int) {
	count = new(int)
	fail := func(string) error {
		if *count++; *count == n {
			return with
		}
		return nil
	}
	w.kernel.Fail(func(op string, _ ipvs.ServerKey) error { return fail(op) })
	w.addrs.Fail, w.fake.Fail = fail, fail
	return count
}

func (w *world) heal() {
	w.kernel.Fail(nil)
	w.addrs.Fail, w.fake.Fail = nil, nil
}

// state is all that can be seen of what is in place.
func (w *world) state() map[string]string {
	w.t.Helper()
	out := w.servers()
	for a, src := range w.addrs.Ours {
		out["bound "+a.String()] = src.String()
	}
	for line := range strings.SplitSeq(w.fake.Dump(), "\n") {
		if !strings.HasPrefix(line, "add element inet vipkit-ipvs pool-") { // marks may differ
			out[line] = ""
		}
	}
	return out
}

// Whatever request fails, and whether it is refused or the kernel is short of something, one more Sync makes it right.
func TestSyncAfterFailure(t *testing.T) {
	first := []app{
		{name: "web", vip: "10.96.0.10", eps: both},
		{name: "old", vip: "10.96.0.11", eps: both, change: external("198.51.100.7")},
		{name: "two", vip: "10.96.0.13", eps: both, change: local(external("198.51.100.8"))},
	}
	second := []app{
		{name: "web", vip: "10.96.0.10", eps: there, change: local(external("198.51.100.9"))},
		{name: "new", vip: "10.96.0.12", eps: here, change: nodePort},
		{name: "two", vip: "10.96.0.13", eps: both, change: external("198.51.100.7")},
	}
	fresh := newWorld(t, ipvs.Options{})
	fresh.sync(with(second...))
	for name, tt := range map[string]struct {
		err  error
		full bool
	}{
		"G26 changes, broken":    {errors.New("broken"), false},
		"G26 changes, refused":   {syscall.EINVAL, false},
		"G26 full sync, broken":  {errors.New("broken"), true},
		"G26 full sync, refused": {syscall.EINVAL, true},
	} {
		t.Run(name, func(t *testing.T) {
			for n := 1; ; n++ {
				w := newWorld(t, ipvs.Options{})
				w.sync(with(first...))
				if tt.full {
					w.restart()
				}
				count := w.failNth(n, tt.err)
				in := with(second...)
				in.Services[nameOf("old")], in.Endpoints[nameOf("old")] = nil, nil
				err := w.try(in)
				w.heal()
				if *count < n {
					if n < 30 || err != nil {
						t.Errorf("%d requests, and then %v", n-1, err)
					}
					return
				}
				if err != nil && !errors.Is(err, tt.err) {
					t.Fatalf("failure %d: got %v, want %v", n, err, tt.err)
				}
				if err != nil {
					w.sync(plan.Input{})
				}
				if diff := cmp.Diff(fresh.state(), w.state()); diff != "" {
					t.Fatalf("after failure %d, %v (-want +got):\n%s", n, err, diff)
				}
				if changed, err := w.backend.Check(t.Context()); len(changed) > 0 || err != nil {
					t.Fatalf("after failure %d: Check() = %q, %v", n, changed, err)
				}
			}
		})
	}
}

// What the kernel refuses is a matter of its port, and what it could not read none of the data plane.
func TestRefusedByTheKernel(t *testing.T) {
	refuse := func(w *world, at string) {
		w.kernel.Fail(func(op string, k ipvs.ServerKey) error {
			if (op == "AddServer" || op == "AddReal") && k == tcp(at) {
				return syscall.EINVAL
			}
			return nil
		})
	}
	t.Run("fault F05 a port that is refused gives its address away, and is repaired", func(t *testing.T) {
		const shared, inA, inB = "198.51.100.9", "10.180.0.1:8080", "10.180.1.1:8080"
		w := newWorld(t, ipvs.Options{})
		b := app{name: "b", vip: "10.96.0.11", eps: there}
		w.sync(with(app{name: "a", vip: "10.96.0.10", eps: here, change: external(shared)}, b))
		refuse(w, "10.96.0.10:80")
		b.change = external(shared)
		var partial *plan.PartialError
		if err := w.try(with(app{name: "a", vip: "10.96.0.10", eps: both}, b)); !errors.As(err, &partial) || len(partial.Ports) != 1 {
			t.Fatalf("Sync: %v, want a PartialError of one port", err)
		}
		want := map[string]string{"TCP 10.96.0.10:80": "rr " + inA, "TCP 10.96.0.11:80": "rr " + inB, "TCP 198.51.100.9:80": "rr " + inB}
		w.wantServers(want)
		w.heal()
		w.sync(plan.Input{})
		want["TCP 10.96.0.10:80"] += " " + inB
		w.wantServers(want)
	})
	t.Run("the others are written in a first sync", func(t *testing.T) {
		w := newWorld(t, ipvs.Options{})
		refuse(w, "10.96.0.12:80")
		var apps []app
		want := map[string]string{}
		for _, vip := range []string{"10.96.0.10", "10.96.0.11", "10.96.0.12", "10.96.0.13"} {
			apps = append(apps, app{name: "s" + vip, vip: vip, eps: here})
			want["TCP "+vip+":80"] = "rr 10.180.0.1:8080"
		}
		if err := w.try(with(apps...)); !errors.Is(err, syscall.EINVAL) {
			t.Fatalf("Sync: %v, want the refusal", err)
		}
		refused := want["TCP 10.96.0.12:80"]
		delete(want, "TCP 10.96.0.12:80")
		w.wantServers(want)
		w.wantBox("frontends-4", "10.96.0.10 . tcp . 80", "10.96.0.11 . tcp . 80", "10.96.0.13 . tcp . 80")
		w.wantBound("10.96.0.10", "10.96.0.11", "10.96.0.13")
		w.heal()
		w.sync(plan.Input{})
		want["TCP 10.96.0.12:80"] = refused
		w.wantServers(want)
	})
	t.Run("a scheduler that is loaded later is found by a full Sync", func(t *testing.T) {
		w := newWorld(t, ipvs.Options{Balance: ipvs.Balance{Scheduler: "wlc"}})
		w.kernel.Fail(func(op string, _ ipvs.ServerKey) error {
			if op == "AddServer" {
				return errors.ErrUnsupported
			}
			return nil
		})
		if err := w.try(with(app{name: "web", vip: "10.96.0.10", eps: here})); !errors.Is(err, errors.ErrUnsupported) {
			t.Fatalf("Sync: %v, want ErrUnsupported", err)
		}
		w.heal()
		w.cursor.Reset()
		w.sync(plan.Input{})
		w.wantServers(map[string]string{"TCP 10.96.0.10:80": "wlc 10.180.0.1:8080"})
	})
	t.Run("Check that cannot read names nothing", func(t *testing.T) {
		w := newWorld(t, ipvs.Options{Timeouts: ipvs.Timeouts{UDP: time.Minute}})
		w.sync(with(app{name: "web", vip: "10.96.0.10", eps: both}))
		for n := 1; ; n++ {
			count := w.failNth(n, syscall.ENOBUFS)
			changed, err := w.backend.Check(t.Context())
			w.heal()
			if *count < n {
				if n < 5 {
					t.Errorf("only %d requests could fail", n-1)
				}
				return
			}
			if len(changed) > 0 || !errors.Is(err, syscall.ENOBUFS) {
				t.Errorf("failure %d: Check() = %q, %v", n, changed, err)
			}
		}
	})
}

// What is there in part only is brought in order, or removed, as if it were there.
func TestHalfOfAnObject(t *testing.T) {
	web := app{name: "web", vip: "10.96.0.10", eps: both, change: local(external("198.51.100.9"))}
	halves := func(w *world) {
		t.Helper()
		err := errors.Join(w.ipvs.DeleteServer(tcp("10.96.0.10:80")), ipvs.Unbind(w.links, addr("10.96.0.10")))
		tx := w.nft.NewTransaction()
		tx.Add(&knftables.Element{Set: "bound-4", Key: []string{"10.96.0.99"}})
		tx.Delete(&knftables.Element{Set: "frontends-4", Key: []string{"198.51.100.9", "tcp", "80"}})
		if err = errors.Join(err, w.nft.Run(t.Context(), tx)); err != nil {
			t.Fatal(err)
		}
	}
	// Without addresses of the node no route has a source.
	for _, nodes := range [][]netip.Addr{nil, {addr("192.0.2.2")}} {
		w := newWorld(t, ipvs.Options{Timeouts: ipvs.Timeouts{UDP: time.Minute}})
		w.config.Node.Addresses = nodes
		w.sync(with(web))
		want := w.state()
		halves(w)
		w.restart()
		w.sync(plan.Input{})
		if diff := cmp.Diff(want, w.state()); diff != "" {
			t.Errorf("after a restart (-want +got):\n%s", diff)
		}
		halves(w)
		w.restart()
		w.sync(withoutWeb())
		w.wantServers(map[string]string{})
		w.wantBound()
		w.wantBox("bound-4")
		w.sync(with(web))
		halves(w)
		w.restart()
		if err := w.backend.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wantServers(map[string]string{})
		w.wantBound()
	}
}

// A change of the configuration replaces rules and what depends on the node, and leaves the rest of the table.
func TestConfigChanges(t *testing.T) {
	web := app{name: "web", vip: "10.96.0.10", eps: both, change: nodePort}
	change := func(w *world) {
		w.config.PodInterfaces = []string{"veth*"}
		w.config.Node.PodCIDRs = []netip.Prefix{prefix("10.181.0.0/24")}
		w.config.Node.Addresses = []netip.Addr{addr("192.0.2.3"), addr("192.0.2.2")}
		w.config.ServiceCIDRs = []netip.Prefix{prefix("10.96.0.0/12")}
	}
	w := newWorld(t, ipvs.Options{})
	w.sync(with(web))
	change(w)
	if stats := w.sync(plan.Input{}); stats.Full {
		t.Error("a change of the configuration is a full Sync")
	}
	fresh := newWorld(t, ipvs.Options{})
	change(fresh)
	fresh.sync(with(web))
	if diff := cmp.Diff(fresh.state(), w.state()); diff != "" {
		t.Errorf("after a change of the configuration (-want +got):\n%s", diff)
	}
}

// What drains is below what Check compares.
func TestCheckWhileDraining(t *testing.T) {
	w := newWorld(t, ipvs.Options{})
	w.sync(with(app{name: "web", vip: "10.96.0.10", eps: both}, app{name: "gone", vip: "10.96.0.11", eps: both}))
	for _, vip := range []string{"10.96.0.10:80", "10.96.0.11:80"} {
		if err := w.kernel.Connect(tcp(vip), addrPort("10.180.1.1:8080"), 1, 0); err != nil {
			t.Fatal(err)
		}
	}
	in := with(app{name: "web", vip: "10.96.0.10", eps: here})
	in.Services[nameOf("gone")], in.Endpoints[nameOf("gone")] = nil, nil
	if stats := w.sync(in); stats.Draining != 2 {
		t.Errorf("%+v, want two that drain", stats)
	}
	w.wantBox("gone-ips-4", "10.96.0.11")
	if changed, err := w.backend.Check(t.Context()); len(changed) > 0 || err != nil {
		t.Errorf("Check() = %q, %v, want nothing", changed, err)
	}
	w.cursor.Reset()
	if stats := w.sync(plan.Input{}); stats.Draining != 2 {
		t.Errorf("%+v after a full Sync, want two that drain", stats)
	}
	w.wantBox("gone-ips-4", "10.96.0.11")
	w.sync(with(app{name: "gone", vip: "10.96.0.11", eps: both}))
	w.wantBox("gone-ips-4")
	w.wantServers(map[string]string{"TCP 10.96.0.10:80": "rr 10.180.0.1:8080 10.180.1.1:8080=0", "TCP 10.96.0.11:80": "rr 10.180.0.1:8080 10.180.1.1:8080"})
}

// One changed endpoint costs the same with many Services as with few.
func TestCostOfOneChange(t *testing.T) {
	cost := func(n int) (requests int, stats backends.Stats) {
		w := newWorld(t, ipvs.Options{})
		var apps []app
		for i := range n {
			vip := netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)})
			apps = append(apps, app{name: "s" + vip.String(), vip: vip.String(), eps: there})
		}
		w.sync(with(apps...))
		apps[0].eps += " 10.180.1.2:8080@n2"
		before := w.kernel.Requests()
		stats = w.sync(with(apps[0]))
		stats.Duration = 0
		return w.kernel.Requests() - before, stats
	}
	want := backends.Stats{Changes: 1, Written: 1, Commits: 1}
	for _, n := range []int{2, 500} {
		if requests, got := cost(n); requests != 2 || got != want {
			t.Errorf("one endpoint more among %d Services: %d requests, %+v, want 2 and %+v", n, requests, got, want)
		}
	}
}

func TestRules(t *testing.T) {
	w := newWorld(t, ipvs.Options{})
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
