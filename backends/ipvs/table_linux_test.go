package ipvs

import (
	"net/netip"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// newTableWorld has the kernel's nftables, in a namespace of its own, and the rest in memory: it needs no IPVS.
func newTableWorld(t *testing.T) *world {
	t.Helper()
	runtime.LockOSThread() // for good: the namespace ends with the thread
	err := unix.Unshare(unix.CLONE_NEWNET)
	var nft knftables.Interface
	if err == nil {
		nft, err = knftables.New(knftables.InetFamily, defaultName)
	}
	if err != nil && os.Getenv("VIPKIT_REQUIRE_KERNEL") == "" {
		t.Skip(err) // no right to, or no nft
	}
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, Options{})
	w.table = nft
	w.restart()
	return w
}

// What the kernel takes must be true of the whole table: each kind of object at once, and again.
func TestTableLoads(t *testing.T) {
	w := newTableWorld(t)
	w.config.PodInterfaces = []string{"veth*", "cali*"}
	w.config.ServiceCIDRs = []netip.Prefix{prefix("10.96.0.0/12"), prefix("fd00:96::/108")}
	w.config.NodePortAddresses = plan.NodePortSelector{All: true}
	w.links.rest = w.config.Node.Addresses
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
	t.Run("G07 #74 all kinds of objects", func(t *testing.T) {
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
		tx := w.table.NewTransaction()
		for i := range n {
			s := site{netip.AddrPortFrom(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}), 80), corev1.ProtocolTCP}
			tx.Add(element{box: "frontends-4", key: s.element()}.object())
		}
		if err := w.table.Run(t.Context(), tx); err != nil {
			t.Fatal(err)
		}
		if got := len(w.box("frontends-4")); got != n+1 {
			t.Errorf("%d elements, want %d", got, n+1)
		}
	})
}
