package ipvs

import (
	"errors"
	"maps"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// newNamespace moves the test into a network namespace of its own, for good: it ends with the thread.
func newNamespace(tb testing.TB) {
	tb.Helper()
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNET)
	if errors.Is(err, unix.EPERM) {
		require(tb, errors.Join(err, errors.ErrUnsupported), "")
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// require skips the test if the system lacks something, unless the environment insists on what.
func require(tb testing.TB, err error, what string) {
	tb.Helper()
	insist := os.Getenv("VIPKIT_REQUIRE_KERNEL")
	if errors.Is(err, errors.ErrUnsupported) && (insist == "" || !strings.Contains(insist, what)) {
		tb.Skip(err)
	}
	tb.Fatal(err)
}

func newTable(tb testing.TB) knftables.Interface {
	tb.Helper()
	nft, err := knftables.New(knftables.InetFamily, defaultName)
	if err != nil {
		require(tb, errors.Join(err, errors.ErrUnsupported), "")
	}
	return nft
}

// newTableWorld has the kernel's nftables and the rest in memory: it needs no IPVS.
func newTableWorld(t *testing.T) *world {
	t.Helper()
	newNamespace(t)
	w := newWorld(t, Options{})
	w.nft = newTable(t)
	w.restart()
	return w
}

// newKernelWorld has all of the kernel.
func newKernelWorld(t *testing.T) *world {
	t.Helper()
	k, l, nft := newKernelParts(t)
	w := &world{t: t, ipvs: k, links: &countedLinks{links: l}, nft: nft}
	w.other = func(a netip.Addr) { t.Helper(); addToLoopback(t, a) }
	w.start()
	return w
}

// newKernelParts gives what a Backend works with, in a namespace with the node's own addresses.
func newKernelParts(tb testing.TB) (Kernel, links, knftables.Interface) {
	tb.Helper()
	newNamespace(tb)
	k, err := Open()
	if err != nil {
		require(tb, err, "ipvs")
	}
	tb.Cleanup(func() {
		if closeErr := k.Close(); closeErr != nil {
			tb.Error(closeErr)
		}
	})
	for _, a := range []string{"192.0.2.2", "2001:db8::2"} {
		addToLoopback(tb, addr(a)) // or they could be no sources
	}
	return k, newLinks(defaultName), newTable(tb)
}

func addToLoopback(tb testing.TB, a netip.Addr) {
	tb.Helper()
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err == nil {
		err = netlink.AddrReplace(lo, &netlink.Addr{IPNet: host(a), Flags: unix.IFA_F_NODAD})
	}
	if err != nil {
		tb.Fatal(err)
	}
}

// What the kernel takes must be true of the whole table: each kind of object at once, and again.
func TestTableLoads(t *testing.T) {
	t.Run("G07 #74 all kinds of objects", func(t *testing.T) {
		w := newTableWorld(t)
		w.config.PodInterfaces = []string{"veth*", "cali*"}
		w.config.ServiceCIDRs = []netip.Prefix{prefix("10.96.0.0/12"), prefix("fd00:96::/108")}
		w.config.NodePortAddresses = plan.NodePortSelector{All: true}
		w.other(addr("192.0.2.2"))
		web := app{name: "web", vip: "10.96.0.10 fd00:96::10", eps: both + " [fd00:10:180::1]:8080@n1", change: local(func(s *service.Service) {
			external("198.51.100.9")(s)
			nodePort(s)
			s.IPv4.LoadBalancerIPs = []netip.Addr{addr("203.0.113.60")}
			s.IPv6.LoadBalancerIPs = []netip.Addr{addr("2001:db8:9::60")}
			s.IPv4.SourceRanges = []netip.Prefix{prefix("198.51.100.0/24")}
			s.IPv6.SourceRanges = []netip.Prefix{prefix("2001:db8:5::/64")} // #74: each set has its family
		})}
		sctp := app{name: "sctp", vip: "10.96.0.11", eps: here, change: func(s *service.Service) {
			s.Ports[0].Protocol, s.Ports[0].NodePort = corev1.ProtocolSCTP, 30090
		}}
		w.sync(with(web, sctp))
		w.wantBox("allowed-6", "2001:db8:9::60 . tcp . 80 . 2001:db8:5::/64")
		w.sync(with(app{name: "web", vip: web.vip}))
		w.restart()
		w.sync(plan.Input{})
		w.sync(withoutWeb())
		w.wantBox("frontends-4", "10.96.0.11 . sctp . 80", "192.0.2.2 . sctp . 30090")
	})
}

// ipset ends at 65,536 elements unless it is told otherwise; the sets of the table end nowhere.
func TestTableHoldsMany(t *testing.T) {
	t.Run("#74 70,000 frontends", func(t *testing.T) {
		w := newTableWorld(t)
		w.sync(with(app{name: "web", vip: "10.96.0.10", eps: here}))
		const n = 70_000
		tx := w.nft.NewTransaction()
		for i := range n {
			s := site{netip.AddrPortFrom(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}), 80), corev1.ProtocolTCP}
			tx.Add(element{box: "frontends-4", key: s.element()}.object())
		}
		if err := w.nft.Run(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		if got := len(w.box("frontends-4")); got != n+1 {
			t.Errorf("%d elements, want %d", got, n+1)
		}
	})
}

// Nothing of others is touched, and what is ours is found again by the next process.
func TestForeignInKernel(t *testing.T) {
	t.Run("G17 G18 G19 G25 #59 restart and Cleanup", func(t *testing.T) {
		w := newKernelWorld(t)
		foreign := VirtualServer{ServerKey: ServerKey{Addr: addrPort("192.0.2.200:80"), Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}, Scheduler: "wlc"}
		marked := VirtualServer{ServerKey: ServerKey{Mark: 7, Family: corev1.IPv4Protocol}, Scheduler: "rr"}
		if err := errors.Join(w.ipvs.AddServer(foreign), w.ipvs.AddServer(marked)); err != nil {
			t.Fatal(err)
		}
		theirs := map[string]string{"TCP 192.0.2.200:80": "wlc", "mark IPv4": "rr"}
		w.sync(with(app{name: "web", vip: "10.96.0.10 fd00:96::10", eps: both + " [fd00:10:180::1]:8080@n1", change: nodePort}))
		ours := map[string]string{
			"TCP 10.96.0.10:80": "rr 10.180.0.1:8080 10.180.1.1:8080", "TCP [fd00:96::10]:80": "rr [fd00:10:180::1]:8080",
			"TCP 192.0.2.2:30080": "rr 10.180.0.1:8080 10.180.1.1:8080", "TCP [2001:db8::2]:30080": "rr [fd00:10:180::1]:8080",
		}
		maps.Copy(ours, theirs)
		w.wantServers(ours)
		w.wantBound("10.96.0.10", "fd00:96::10")
		if err := w.ipvs.SetReal(site{addrPort("10.96.0.10:80"), corev1.ProtocolTCP}.key(), RealServer{Addr: addrPort("10.180.0.1:8080")}); err != nil {
			t.Fatal(err) // G25: left at weight 0
		}
		w.restart()
		w.links.changes = 0
		if stats := w.sync(plan.Input{}); w.links.changes != 0 {
			t.Errorf("%+v, %d addresses changed after a restart, want every one found right", stats, w.links.changes)
		}
		w.wantServers(ours)
		w.restart()
		w.sync(withoutWeb())
		w.wantServers(theirs)
		w.wantBound()
		w.sync(with(app{name: "web", vip: "10.96.0.10", eps: both}))
		if err := w.backend.Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.wantServers(theirs)
	})
}
