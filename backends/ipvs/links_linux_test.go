package ipvs_test

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/proxy/plan"
)

// bindAsBefore gives an interface an address, as versions before the routes did.
func bindAsBefore(t *testing.T, a, src netip.Addr) {
	t.Helper()
	attrs := netlink.NewLinkAttrs()
	attrs.Name = ipvs.DefaultName
	link := &netlink.Dummy{LinkAttrs: attrs}
	if err := netlink.LinkAdd(link); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	found, err := netlink.LinkByName(ipvs.DefaultName)
	if err == nil {
		err = netlink.LinkSetUp(found)
	}
	if err != nil {
		t.Fatal(err)
	}
	bind(t, found, a)
	r := &netlink.Route{
		LinkIndex: found.Attrs().Index, Dst: host(a), Src: src.AsSlice(), Table: unix.RT_TABLE_LOCAL, Type: unix.RTN_LOCAL,
		Scope: netlink.SCOPE_HOST, Protocol: unix.RTPROT_KERNEL,
	}
	if a.Is6() {
		r.Scope, r.Priority, r.Protocol = netlink.SCOPE_UNIVERSE, 512, unix.RTPROT_STATIC
	}
	if err := netlink.RouteReplace(r); err != nil {
		t.Fatal(err)
	}
	if a.Is4() {
		return
	}
	r.Priority, r.Protocol, r.Src = 0, unix.RTPROT_KERNEL, nil
	if err := netlink.RouteDel(r); err != nil {
		t.Fatal(err)
	}
}

// routesTo returns the local routes to an address, their sources by protocol.
func routesTo(t *testing.T, a netip.Addr) map[int]string {
	t.Helper()
	family := netlink.FAMILY_V4
	if a.Is6() {
		family = netlink.FAMILY_V6
	}
	found, err := netlink.RouteListFiltered(family, &netlink.Route{Table: unix.RT_TABLE_LOCAL, Dst: host(a)}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_DST)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[int]string)
	for _, r := range found {
		out[int(r.Protocol)] = r.Src.String()
	}
	return out
}

// The kernel keeps the addresses of an interface in a list; routes take their place, and those of a running node are taken over.
func TestUpgradeFromAddresses(t *testing.T) {
	w := newKernelWorld(t)
	kept := map[netip.Addr]netip.Addr{addr("10.96.0.10"): addr("192.0.2.2"), addr("fd00:96::10"): addr("2001:db8::2")}
	for a, src := range kept {
		bindAsBefore(t, a, src)
	}
	bindAsBefore(t, addr("10.96.0.99"), addr("192.0.2.2"))
	bindAsBefore(t, addr("fd00:96::99"), addr("2001:db8::2"))
	w.sync(with(app{name: "web", vip: "10.96.0.10 fd00:96::10", eps: both + " [fd00:10:180::1]:8080@n1"}))
	bound, err := ipvs.Bound(w.links)
	if err != nil {
		t.Fatal(err)
	}
	for a, src := range kept {
		if got := routesTo(t, a); len(got) != 1 || got[ipvs.RouteProtocol] != src.String() {
			t.Errorf("local routes to %s, by protocol: %v, want ours only, with source %s", a, got, src)
		}
	}
	if !maps.Equal(bound, kept) {
		t.Errorf("bound %v, want %v", bound, kept)
	}
	if _, err := netlink.LinkByName(ipvs.DefaultName); err == nil {
		t.Error("the interface of the addresses is there still")
	}
	for _, gone := range []string{"10.96.0.99", "fd00:96::99"} {
		if got := routesTo(t, addr(gone)); len(got) > 0 {
			t.Errorf("%s has routes still: %v", gone, got)
		}
	}
	w.sync(withoutWeb())
	for a := range kept {
		if got := routesTo(t, a); len(got) > 0 {
			t.Errorf("%s has routes after its Service has gone: %v", a, got)
		}
	}
}

// As with addresses of the interface, a node answers ARP for all that is local to it, unless StrictARP says otherwise.
func TestARPOfBoundAddresses(t *testing.T) {
	const own, vip = "192.0.2.2", "10.96.0.10"
	for name, tt := range map[string]struct {
		strict bool
		want   []string
	}{
		"G20 strict: for its own addresses only": {true, []string{own}},
		"G20 not strict: for all":                {false, []string{vip, own}},
	} {
		t.Run(name, func(t *testing.T) {
			lab := arpLab(t)
			err := lab.Namespace(netlab.NodeName).Do(func() error {
				b, err := ipvs.New(ipvs.Options{StrictARP: tt.strict})
				if err != nil {
					return err
				}
				defer b.Close()
				if _, err := b.Prepare(t.Context()); err != nil {
					requireOf(t, err, "ipvs")
				}
				p, _ := plan.New(plan.Config{Node: plan.Node{Name: "n1", Addresses: []netip.Addr{addr(own)}}}).Update(with(app{name: "web", vip: vip, eps: here}))
				return b.Sync(t.Context(), plan.Full(p))
			})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			err = lab.Namespace("client").Do(func() error { got = whoHas(t, addr("192.0.2.1"), addr(vip), addr(own)); return nil })
			if err != nil || len(got) != len(tt.want) || got[0] != tt.want[0] {
				t.Errorf("ARP is answered for %v, %v, want for %v", got, err, tt.want)
			}
		})
	}
}

func arpLab(t *testing.T) *netlab.Lab {
	t.Helper()
	lab, err := netlab.New(netlab.Options{
		Node: []netip.Addr{addr("192.0.2.2")}, Uplink: "client",
		Hosts: []netlab.Host{{Name: "client", Interface: "eth0", Addresses: []netip.Addr{addr("192.0.2.1")}}},
	})
	if err != nil {
		requireOf(t, err, "")
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	return lab
}

// whoHas asks over eth0 for addresses, of which the last one is answered for sure, and returns those for which an answer came before.
func whoHas(t *testing.T, from netip.Addr, targets ...netip.Addr) []string {
	t.Helper()
	link, err := net.InterfaceByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	proto := binary.BigEndian.Uint16([]byte{0x06, 0x08}) // ETH_P_ARP, in the order of the network
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, int(proto))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	deadline := unix.Timeval{Sec: 60}
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &deadline); err != nil {
		t.Fatal(err)
	}
	to := &unix.SockaddrLinklayer{Protocol: proto, Ifindex: link.Index, Halen: 6, Addr: [8]byte{255, 255, 255, 255, 255, 255}}
	for _, a := range targets {
		request := append([]byte{0, 1, 8, 0, 6, 4, 0, 1}, link.HardwareAddr...)
		request = append(append(request, from.AsSlice()...), make([]byte, 6)...)
		if err := unix.Sendto(fd, append(request, a.AsSlice()...), 0, to); err != nil {
			t.Fatal(err)
		}
	}
	var out []string
	answer := make([]byte, 100)
	for {
		n, _, err := unix.Recvfrom(fd, answer, 0)
		if err != nil {
			t.Fatalf("no answer for %s: %v", targets[len(targets)-1], err)
		}
		if n < 28 || answer[7] != 2 { // a reply
			continue
		}
		sender, _ := netip.AddrFromSlice(answer[14:18])
		out = append(out, sender.String())
		if sender == targets[len(targets)-1] {
			return out
		}
	}
}
