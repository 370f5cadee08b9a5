package backendtest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

// NodeName is the name of the node that the scenarios are about.
const NodeName = "n1"

// numClients is how many addresses the name "clients" stands for.
const numClients = 20

// A place is an address of the scenarios' network under a short name, one for each
// family.
type place struct {
	name string
	host string // that has it, "" if it is a frontend or nobody's
	v4   string
	v6   string
}

// places are all names that scenarios use. Where a host has several, the first
// address is the one that it uses by itself.
func places() []place {
	return []place{
		// The node's own. As a client it uses its second address, so that a masqueraded
		// packet can be told from one that is not.
		{"node", netlab.NodeName, "192.0.2.10", "2001:db8:1::10"},
		{"node2", netlab.NodeName, "192.0.2.110", "2001:db8:1::110"},
		{"foreign", netlab.NodeName, "172.17.0.1", "fd00:17::1"}, // local, but not of the Node object
		{"localhost", "", "127.0.0.1", "::1"},

		// Outside.
		{"router", "client", "192.0.2.1", "2001:db8:1::1"},
		{"client", "client", "198.51.100.4", "2001:db8:5::4"},
		{"stranger", "client", "198.18.0.4", "2001:db8:6::4"},

		// Pods of this node and of another, and that node.
		{"a", "a", "10.200.1.1", "fd00:200:1::1"},
		{"b", "b", "10.200.1.2", "fd00:200:1::2"},
		{"p", "p", "10.200.1.9", "fd00:200:1::9"},
		{"remote", "remote", "192.0.2.20", "2001:db8:1::20"},
		{"c", "remote", "10.200.2.1", "fd00:200:2::1"},
		{"d", "remote", "10.200.2.2", "fd00:200:2::2"},
		{"q", "remote", "10.200.2.9", "fd00:200:2::9"},
		{"proxy", "remote", "203.0.113.7", "2001:db8:9::7"}, // a load balancer of its own

		// Frontends.
		{"vip", "", "10.96.0.50", "fd00:96::50"},
		{"vip2", "", "10.96.0.51", "fd00:96::51"},
		{"vip3", "", "10.96.0.52", "fd00:96::52"},
		{"unallocated", "", "10.96.7.7", "fd00:96::7:7"},
		{"marker", "", "10.96.0.99", "fd00:96::99"}, // the suite's own, see settle.go
		{"lb", "", "203.0.113.40", "2001:db8:9::40"},
		{"lb2", "", "203.0.113.41", "2001:db8:9::41"},
		{"ext", "", "203.0.113.50", "2001:db8:9::50"},
		{"ext2", "", "203.0.113.51", "2001:db8:9::51"},
	}
}

// ranges are the names of ranges.
func ranges() []place {
	return []place{
		{"localpods", "", "10.200.1.0/24", "fd00:200:1::/64"},
		{"clusterpods", "", "10.200.0.0/16", "fd00:200::/32"},
		{"services", "", "10.96.0.0/16", "fd00:96::/64"},
		{"clients", "", "198.51.100.0/24", "2001:db8:5::/64"},
		{"strangers", "", "198.18.0.4/32", "2001:db8:6::/64"},
		{"nodes", "", "192.0.2.0/24", "2001:db8:1::/64"},
		{"foreigners", "", "172.17.0.0/16", "fd00:17::/64"},
		{"nowhere", "", "100.64.0.0/10", "2001:db8:ffff::/48"},
		{"loopback", "", "127.0.0.0/8", "::1/128"},
		{"anywhere", "", "0.0.0.0/0", "::/0"},
	}
}

// Labels for the hosts' interfaces on the node.
func interfaces() map[string]string {
	return map[string]string{"client": "eth0", "remote": "eth1", "a": "veth-a", "b": "veth-b", "p": "veth-p"}
}

// A book finds addresses by name and names by address.
type book struct {
	addrs  map[string]map[corev1.IPFamily]netip.Addr
	hosts  map[string]string // by name of place
	texts  map[string]string // variables of both families: "a4", "a6", "localpods4", ...
	byAddr map[netip.Addr]string
}

func newBook() *book {
	b := &book{
		addrs: map[string]map[corev1.IPFamily]netip.Addr{}, hosts: map[string]string{},
		texts: map[string]string{}, byAddr: map[netip.Addr]string{},
	}
	for _, p := range places() {
		b.hosts[p.name] = p.host
		v4, v6 := netip.MustParseAddr(p.v4), netip.MustParseAddr(p.v6)
		b.addrs[p.name] = map[corev1.IPFamily]netip.Addr{corev1.IPv4Protocol: v4, corev1.IPv6Protocol: v6}
		b.byAddr[v4], b.byAddr[v6] = p.name, p.name
		b.texts[p.name+"4"], b.texts[p.name+"6"] = p.v4, p.v6
	}
	b.hosts["localhost"] = netlab.NodeName
	for _, r := range ranges() {
		b.texts[r.name+"4"], b.texts[r.name+"6"] = r.v4, r.v6
	}
	return b
}

// lookup returns the address with a name, which may end in 4 or 6 to name the family;
// otherwise it is of family f.
func (b *book) lookup(name string, f corev1.IPFamily) (netip.Addr, error) {
	if a, ok := b.addrs[name]; ok {
		return a[f], nil
	}
	if text, ok := b.texts[name]; ok {
		return netip.ParseAddr(text)
	}
	return netip.Addr{}, fmt.Errorf("no address is called %q", name)
}

// expand replaces $name in text; FAMILY and PROTOCOL are variables as well.
func (b *book) expand(text string, v variant) (string, error) {
	var unknown []string
	out := expandVariables(text, func(name string) string {
		switch name {
		case "FAMILY":
			return string(v.family)
		case "PROTOCOL":
			return string(v.protocol)
		}
		for _, n := range []string{name, name + v.suffix()} {
			if t, ok := b.texts[n]; ok {
				return t
			}
		}
		unknown = append(unknown, name)
		return ""
	})
	if len(unknown) > 0 {
		return "", fmt.Errorf("unknown variables: %s", strings.Join(unknown, ", "))
	}
	return out, nil
}

// expandVariables is os.Expand for names of letters and digits, without the shell's
// special variables.
func expandVariables(text string, value func(string) string) string {
	var out strings.Builder
	for {
		before, after, found := strings.Cut(text, "$")
		out.WriteString(before)
		if !found {
			return out.String()
		}
		n := 0
		for n < len(after) && isWord(after[n]) {
			n++
		}
		out.WriteString(value(after[:n]))
		text = after[n:]
	}
}

func isWord(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

// clients returns the addresses that the name "clients" stands for.
func clients(f corev1.IPFamily) []netip.Addr {
	out := make([]netip.Addr, 0, numClients)
	for i := range numClients {
		text := fmt.Sprintf("198.51.100.%d", 101+i)
		if f == corev1.IPv6Protocol {
			text = fmt.Sprintf("2001:db8:5::%d", 101+i)
		}
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

// labOptions is the network of the scenarios.
func labOptions() netlab.Options {
	addrs := map[string][]netip.Addr{}
	for _, p := range places() {
		addrs[p.host] = append(addrs[p.host], netip.MustParseAddr(p.v4), netip.MustParseAddr(p.v6))
	}
	addrs["client"] = slices.Concat(addrs["client"], clients(corev1.IPv4Protocol), clients(corev1.IPv6Protocol))
	opts := netlab.Options{Node: addrs[netlab.NodeName], Uplink: "client"}
	for _, host := range []string{"client", "remote", "a", "b", "p"} {
		opts.Hosts = append(opts.Hosts, netlab.Host{Name: host, Interface: interfaces()[host], Addresses: addrs[host]})
	}
	return opts
}
