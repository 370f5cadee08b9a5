package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vishvananda/netlink"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

// The network is one node with its pods a, b and c, another node with three pods, clients out1 and out2, and the world: the
// default route, which answers whatever passes the node untouched, so that passing is not taken for a drop.
const (
	nodeName  = "node-1"
	otherName = "node-2"
	world     = "world"

	worldPort = 7777
	toolTime  = 20 * time.Second
)

func addrs(texts ...string) (out []netip.Addr) {
	for _, t := range texts {
		out = append(out, netip.MustParseAddr(t))
	}
	return out
}

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

func nodeAddrs() []netip.Addr {
	return addrs("192.0.2.10", "192.0.2.110", "2001:db8:1::10", "2001:db8:1::110")
}
func foreignAddrs() []netip.Addr   { return addrs("172.17.0.1", "fd00:17::1") } // local, but not of the Node object
func localVIPs() []netip.Addr      { return addrs("203.0.113.40", "2001:db8:9::40") }
func podCIDRs() []netip.Prefix     { return prefixes("10.200.1.0/24", "fd00:200:1::/64") }
func serviceCIDRs() []netip.Prefix { return prefixes("10.96.0.0/16", "fd00:96::/112") }
func serverPorts() []uint16        { return []uint16{8080, 8081, 9090} }

// A host is a host of the network with ranges of which all addresses are its own, too.
type host struct {
	netlab.Host
	ranges []netip.Prefix
}

func hosts() []host {
	one := func(name, iface string, own []netip.Addr, ranges ...string) host {
		return host{netlab.Host{Name: name, Interface: iface, Addresses: own}, prefixes(ranges...)}
	}
	return []host{
		one(world, "eth0", addrs("192.0.2.1", "2001:db8:1::1"), "203.0.113.0/24", "10.96.0.0/16", "2001:db8:9::/64", "fd00:96::/112"),
		one("a", "veth-a", addrs("10.200.1.1", "fd00:200:1::1")),
		one("b", "veth-b", addrs("10.200.1.2", "fd00:200:1::2")),
		one("c", "veth-c", addrs("10.200.1.3", "fd00:200:1::3"), "10.200.1.128/25", "fd00:200:1::8000/113"),
		one("remote", "eth1", addrs("192.0.2.20", "10.200.2.1", "10.200.2.2", "10.200.2.3", "2001:db8:1::20", "fd00:200:2::1", "fd00:200:2::2", "fd00:200:2::3")),
		one("out1", "eth2", addrs("198.51.100.4", "2001:db8:5::4"), "198.51.100.128/25", "198.19.0.0/16", "2001:db8:5::8000/113", "2001:db8:5:1::/64"),
		one("out2", "eth3", addrs("198.18.0.4", "2001:db8:6::4")),
	}
}

// hostOf returns the name of the host that has an address, "" if none has.
func hostOf(a netip.Addr) string {
	if isNode(a) {
		return netlab.NodeName
	}
	for _, h := range hosts() {
		if slices.Contains(h.Addresses, a) || slices.ContainsFunc(h.ranges, func(p netip.Prefix) bool { return p.Contains(a) }) {
			return h.Name
		}
	}
	return ""
}

func isNode(a netip.Addr) bool {
	return a.IsLoopback() || slices.Contains(nodeAddrs(), a) || slices.Contains(foreignAddrs(), a)
}

// newLab returns a copy of the network.
func newLab(ctx context.Context) (*netlab.Lab, error) {
	opts := netlab.Options{Node: slices.Concat(nodeAddrs(), foreignAddrs()), Uplink: world}
	for _, h := range hosts() {
		opts.Hosts = append(opts.Hosts, h.Host)
	}
	lab, err := netlab.New(opts)
	if err != nil {
		return nil, err
	}
	for _, h := range hosts() {
		if err := addRanges(ctx, lab, h); err != nil {
			return nil, err
		}
	}
	if err := serveAll(lab); err != nil {
		return nil, err
	}
	return lab, lab.Namespace(world).Do(func() error {
		return run(ctx, redirectAll(), "nft", "-f", "-")
	})
}

// addRanges makes all addresses of a host's ranges its own, and sends them there.
func addRanges(ctx context.Context, lab *netlab.Lab, h host) error {
	for _, p := range h.ranges {
		gateway := "169.254.1.2"
		if p.Addr().Is6() {
			gateway = "fe80::2"
		}
		if err := lab.Namespace(h.Name).Do(func() error { return run(ctx, "", "ip", "route", "add", "local", p.String(), "dev", "lo") }); err != nil {
			return err
		}
		if err := lab.Namespace(netlab.NodeName).Do(func() error {
			return run(ctx, "", "ip", "route", "add", p.String(), "via", gateway, "dev", h.Interface, "onlink")
		}); err != nil {
			return err
		}
	}
	return lab.Namespace(h.Name).Do(func() error {
		for _, name := range []string{"ipv4/ip_nonlocal_bind", "ipv6/ip_nonlocal_bind"} {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte("1"), 0); err != nil {
				return err
			}
		}
		return nil
	})
}

// serveAll starts servers of both protocols at every endpoint address, at the node's, and the world's.
func serveAll(lab *netlab.Lab) error {
	at := nodeAddrs()
	for _, h := range hosts() {
		if h.Name != world && h.Name != "out1" && h.Name != "out2" {
			at = append(at, h.Addresses...)
		}
	}
	var all []netip.AddrPort
	for _, a := range at {
		for _, p := range serverPorts() {
			all = append(all, netip.AddrPortFrom(a, p))
		}
	}
	for _, a := range worldAddrs() {
		all = append(all, netip.AddrPortFrom(a, worldPort))
	}
	for _, ap := range all {
		for _, proto := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
			if err := lab.Serve(ap, proto); err != nil {
				return err
			}
		}
	}
	return nil
}

func worldAddrs() []netip.Addr { return addrs("192.0.2.1", "2001:db8:1::1") }

// redirectAll leads everything that reaches the world's ranges to its server.
func redirectAll() string {
	var b strings.Builder
	for family, ranges := range map[string]string{"ip": "203.0.113.0/24, 10.96.0.0/16", "ip6": "2001:db8:9::/64, fd00:96::/112"} {
		fmt.Fprintf(&b, "table %s world {\n chain answer {\n  type nat hook prerouting priority -100\n", family)
		fmt.Fprintf(&b, "  %s daddr { %s } meta l4proto { tcp, udp } redirect to :%d\n }\n}\n", family, ranges, worldPort)
	}
	return b.String()
}

// run runs a program in the namespace of the calling thread.
func run(ctx context.Context, stdin, name string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %.500s", name, strings.Join(args, " "), err, out)
	}
	return nil
}

// forget empties the node: connections and rules of earlier clusters.
func forget(ctx context.Context, lab *netlab.Lab) error {
	return lab.Namespace(netlab.NodeName).Do(func() error {
		if err := run(ctx, "", "nft", "flush", "ruleset"); err != nil {
			return err
		}
		return netlink.ConntrackTableFlush(netlink.ConntrackTable)
	})
}

// setLocal gives the node load-balancer IPs as addresses of its own, or takes them away.
func setLocal(ctx context.Context, lab *netlab.Lab, verb string, vips []netip.Addr) error {
	return lab.Namespace(netlab.NodeName).Do(func() error {
		for _, a := range vips {
			args := []string{"address", verb, netip.PrefixFrom(a, a.BitLen()).String(), "dev", "lo"}
			if a.Is6() && verb == "add" {
				args = append(args, "nodad", "preferred_lft", "0")
			}
			if err := run(ctx, "", "ip", args...); err != nil {
				return err
			}
		}
		return nil
	})
}
