package netlab

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// An end is one end of a veth pair. Its gateway addresses are what the other end's
// routes name; they are the same on all pairs, and need no address of that family on the
// interface, nor neighbour discovery, which would lose first packets: the other end
// knows the hardware address.
type end struct {
	ipv4, ipv6 netip.Addr
	mac        net.HardwareAddr
}

func nodeEnd() end {
	return end{netip.MustParseAddr("169.254.1.1"), netip.MustParseAddr("fe80::1"), net.HardwareAddr{2, 0, 0, 0, 0, 1}}
}

func hostEnd() end {
	return end{netip.MustParseAddr("169.254.1.2"), netip.MustParseAddr("fe80::2"), net.HardwareAddr{2, 0, 0, 0, 0, 2}}
}

// gateway returns the end's address to be used in a route to a.
func (e end) gateway(a netip.Addr) net.IP {
	if a.Is6() {
		return e.ipv6.AsSlice()
	}
	return e.ipv4.AsSlice()
}

// connect wires all hosts to the node and sets up addresses and routes.
func (l *Lab) connect() error {
	node := l.hosts[NodeName]
	if err := node.Do(func() error { return l.buildNode() }); err != nil {
		return fmt.Errorf("netlab: node: %w", err)
	}
	for _, h := range l.opts.Hosts {
		if err := l.hosts[h.Name].Do(func() error { return l.buildHost(h) }); err != nil {
			return fmt.Errorf("netlab: host %s: %w", h.Name, err)
		}
		if err := node.Do(func() error { return l.routeTo(h) }); err != nil {
			return fmt.Errorf("netlab: node: route to %s: %w", h.Name, err)
		}
	}
	return l.waitReady()
}

// nodeSettings make a router of the node.
func nodeSettings() map[string]string {
	return map[string]string{
		"ipv4/ip_forward":                  "1",
		"ipv4/conf/all/send_redirects":     "0",
		"ipv4/conf/default/send_redirects": "0",
		"ipv6/conf/all/forwarding":         "1",
	}
}

// commonSettings let addresses of any interface be used at once, and take the limits
// away from ICMP errors. The defaults must be written before there are interfaces.
func commonSettings() map[string]string {
	return map[string]string{
		"ipv4/conf/all/rp_filter":            "0",
		"ipv4/conf/default/rp_filter":        "0",
		"ipv4/conf/all/accept_redirects":     "0",
		"ipv4/ip_local_port_range":           "61001 65535",
		"ipv4/icmp_ratelimit":                "0",
		"ipv4/icmp_ratemask":                 "0",
		"ipv6/icmp/ratelimit":                "0",
		"ipv6/conf/all/disable_ipv6":         "0",
		"ipv6/conf/default/disable_ipv6":     "0",
		"ipv6/conf/default/accept_dad":       "0",
		"ipv6/conf/default/accept_ra":        "0",
		"ipv6/conf/default/accept_redirects": "0",
		"ipv6/conf/default/addr_gen_mode":    "1",
	}
}

// configure writes settings of the current namespace. Those that the kernel does not
// have are left out.
func configure(settings map[string]string) error {
	for name, value := range settings {
		err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set %s: %w", name, unsupported(err))
		}
	}
	return nil
}

func (l *Lab) buildNode() error {
	if err := errors.Join(configure(nodeSettings()), linkUp("lo")); err != nil {
		return err
	}
	for i, h := range l.opts.Hosts {
		if err := addVeth(h.Interface, i, l.hosts[h.Name]); err != nil {
			return fmt.Errorf("interface %s: %w", h.Interface, unsupported(err))
		}
		addrs := []netip.Addr(nil)
		if h.Name == l.opts.Uplink {
			addrs = l.opts.Node
		}
		if err := setUp(h.Interface, addrs, nodeEnd()); err != nil {
			return err
		}
	}
	return nil
}

func (l *Lab) buildHost(h Host) error {
	if err := errors.Join(linkUp("lo"), setUp("eth0", h.Addresses, hostEnd())); err != nil {
		return err
	}
	return addRoutes("eth0", nodeEnd(), everything())
}

// routeTo is run on the node when both ends of the host's veth pair are up.
func (l *Lab) routeTo(h Host) error {
	dsts := make([]netip.Prefix, 0, len(h.Addresses))
	for _, a := range h.Addresses {
		dsts = append(dsts, netip.PrefixFrom(a, a.BitLen()))
	}
	if h.Name == l.opts.Uplink {
		dsts = append(dsts, everything()...)
	}
	return addRoutes(h.Interface, hostEnd(), dsts)
}

func everything() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
}

// addRoutes leads packets over an interface of the current namespace to its other end.
func addRoutes(name string, peer end, dsts []netip.Prefix) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	index := link.Attrs().Index
	for _, gw := range []netip.Addr{peer.ipv4, peer.ipv6} {
		n := &netlink.Neigh{LinkIndex: index, IP: gw.AsSlice(), HardwareAddr: peer.mac, State: netlink.NUD_PERMANENT}
		if err := netlink.NeighSet(n); err != nil {
			return fmt.Errorf("add neighbour %s: %w", gw, err)
		}
	}
	for _, dst := range dsts {
		r := &netlink.Route{LinkIndex: index, Dst: ipNet(dst), Gw: peer.gateway(dst.Addr()), Flags: int(netlink.FLAG_ONLINK)}
		if err := netlink.RouteAdd(r); err != nil {
			return fmt.Errorf("add route to %s: %w", dst, err)
		}
	}
	return nil
}

// firstIndex is where the node's interfaces are numbered from. The two ends of a veth
// pair must not have the same number: the kernel would take the pair for a device
// without a lower one, and tell IPv6 about its carrier up to a second late.
const firstIndex = 100

// addVeth connects the current namespace, the node, to its i-th host.
func addVeth(name string, i int, peer *Namespace) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.Index, attrs.HardwareAddr = name, firstIndex+i, nodeEnd().mac
	return netlink.LinkAdd(&netlink.Veth{
		LinkAttrs: attrs, PeerName: "eth0", PeerHardwareAddr: hostEnd().mac, PeerNamespace: netlink.NsFd(peer.file.Fd()),
	})
}

// setUp gives addresses to an interface of the current namespace and sets it up. All
// IPv6 ones but the first are deprecated, which keeps the kernel from choosing them by
// itself.
func setUp(name string, addrs []netip.Addr, e end) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	all := []*netlink.Addr{{IPNet: ipNet(netip.PrefixFrom(e.ipv6, 64)), Flags: unix.IFA_F_NODAD}}
	seen6 := false
	for _, a := range addrs {
		addr := &netlink.Addr{IPNet: ipNet(netip.PrefixFrom(a, a.BitLen()))}
		if a.Is6() {
			addr.Flags = unix.IFA_F_NODAD
			if seen6 {
				addr.PreferedLft, addr.ValidLft = 0, 1<<31-1
			}
			seen6 = true
		}
		all = append(all, addr)
	}
	for _, addr := range all {
		if err := netlink.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("add address %s: %w", addr.IPNet, err)
		}
	}
	return linkUp(name)
}

func linkUp(name string) error {
	link, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set up %s: %w", name, err)
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
