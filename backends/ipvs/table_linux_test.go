package ipvs_test

import (
	"errors"
	"maps"
	"net/netip"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// newNamespace moves the test into a network namespace of its own, for good: it ends with the thread.
func newNamespace(tb testing.TB) {
	tb.Helper()
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNET)
	if errors.Is(err, unix.EPERM) {
		requireOf(tb, errors.Join(err, errors.ErrUnsupported), "")
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func newTable(tb testing.TB) knftables.Interface {
	tb.Helper()
	nft, err := knftables.New(knftables.InetFamily, ipvs.DefaultName)
	if err != nil {
		requireOf(tb, errors.Join(err, errors.ErrUnsupported), "")
	}
	return nft
}

func openTable(tb testing.TB) ipvs.Table {
	tb.Helper()
	nft, err := ipvs.OpenTable(tb.Context())
	if err != nil {
		requireOf(tb, err, "")
	}
	return nft
}

// newTableWorld has the kernel's nftables and the rest in memory: it needs no IPVS.
func newTableWorld(t *testing.T) *world {
	t.Helper()
	newNamespace(t)
	w := newWorld(t, ipvs.Options{})
	w.nft, w.table = newTable(t), openTable(t)
	w.restart()
	return w
}

// newKernelWorld has all of the kernel.
func newKernelWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t}
	w.ipvs, w.links, w.table = newKernelParts(t)
	w.nft = newTable(t)
	w.other = func(a netip.Addr) { t.Helper(); addToLoopback(t, a) }
	w.start()
	return w
}

// newKernelParts gives what a Backend works with, in a namespace with the node's own addresses.
func newKernelParts(tb testing.TB) (ipvs.KernelMethods, ipvs.Links, ipvs.Table) {
	tb.Helper()
	newNamespace(tb)
	k, err := ipvs.Open()
	if err != nil {
		requireOf(tb, err, "ipvs")
	}
	tb.Cleanup(func() {
		if closeErr := k.Close(); closeErr != nil {
			tb.Error(closeErr)
		}
	})
	for _, a := range []string{"192.0.2.2", "2001:db8::2"} {
		addToLoopback(tb, addr(a)) // or they could be no sources
	}
	return ipvs.Behind(k), ipvs.NewLinks(), openTable(tb)
}

func addToLoopback(tb testing.TB, a netip.Addr) {
	tb.Helper()
	lo, err := netlink.LinkByName("lo")
	if err == nil {
		err = netlink.LinkSetUp(lo)
	}
	if err != nil {
		tb.Fatal(err)
	}
	bind(tb, lo, a)
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
		w.wantUnchanged()
		narrower := web
		narrower.change = func(s *service.Service) {
			web.change(s)
			s.IPv4.SourceRanges = []netip.Prefix{prefix("198.51.100.0/25"), prefix("203.0.113.1/32"), prefix("0.0.0.0/1")}
		}
		w.sync(with(narrower)) // ranges that overlap those of before
		w.config.Node.PodCIDRs = []netip.Prefix{prefix("10.180.0.0/16"), prefix("fd00:10:180::/48")}
		w.config.PodInterfaces = []string{"veth*"}
		w.sync(plan.Input{})
		w.wantUnchanged()
		w.sync(with(web))
		w.wantUnchanged()
		w.sync(with(app{name: "web", vip: web.vip}))
		w.restart()
		w.sync(plan.Input{})
		w.wantUnchanged()
		w.sync(withoutWeb())
		w.wantUnchanged()
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
			a := netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)})
			tx.Add(&knftables.Element{Set: "frontends-4", Key: []string{a.String(), "tcp", "80"}})
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
		foreign := ipvs.VirtualServer{ServerKey: ipvs.ServerKey{Addr: addrPort("192.0.2.200:80"), Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}, Scheduler: "wlc"}
		marked := ipvs.VirtualServer{ServerKey: ipvs.ServerKey{Mark: 7, Family: corev1.IPv4Protocol}, Scheduler: "rr"}
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
		if err := w.ipvs.SetReal(tcp("10.96.0.10:80"), ipvs.RealServer{Addr: addrPort("10.180.0.1:8080")}); err != nil {
			t.Fatal(err) // G25: left at weight 0
		}
		plainLinks := w.links
		w.links = ipvs.WatchedLinks{Links: w.links, OnBind: func(a netip.Addr) { t.Errorf("%s is bound after a restart, and was", a) }}
		w.restart()
		w.sync(plan.Input{})
		w.wantServers(ours)
		w.links = plainLinks
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
