package plan

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/ip"
)

// A NodePortSelector chooses addresses of a node. The zero value means Primary.
type NodePortSelector struct {
	All       bool // every local address but loopback and link-local
	Primary   bool // the node's primary address of each family
	Localhost bool // 127.0.0.0/8 and ::1

	// Prefixes choose the node's addresses inside them. A range of length zero
	// is All for its family. Loopback addresses are chosen by a range within them, which serves as it
	// is, and all of them by a longer one that has 127.0.0.1 or ::1, as 0.0.0.0/1. A link-local address is
	// chosen only by a range that lies within the link-local ones.
	Prefixes []netip.Prefix
}

// ParseNodePortSelector reads the values of kube-proxy's nodePortAddresses: CIDRs
// and the words "primary", "localhost" and "all". No values mean "primary". A CIDR of length
// zero means "all" for its family; leading zeros are decimal. The error names the value that could not be read.
func ParseNodePortSelector(values []string) (NodePortSelector, error) {
	var s NodePortSelector
	for _, v := range values {
		switch v {
		case "all":
			s.All = true
		case "primary":
			s.Primary = true
		case "localhost":
			s.Localhost = true
		default:
			p, ok := ip.ParsePrefix(v)
			if !ok {
				return NodePortSelector{}, fmt.Errorf("plan: parse node port address %q: not a CIDR, primary, localhost or all", v)
			}
			s.Prefixes = append(s.Prefixes, p)
		}
	}
	return s, nil
}

func (s NodePortSelector) equal(o NodePortSelector) bool {
	return s.All == o.All && s.primary() == o.primary() && s.Localhost == o.Localhost && slices.Equal(s.Prefixes, o.Prefixes)
}

func (s NodePortSelector) primary() bool {
	return s.Primary || !s.All && !s.Localhost && len(s.Prefixes) == 0
}

// has reports whether some entry is about family f.
func (s NodePortSelector) has(f corev1.IPFamily) bool {
	return s.All || s.primary() || s.Localhost ||
		slices.ContainsFunc(s.Prefixes, func(p netip.Prefix) bool { return ip.Family(p.Addr()) == f })
}

// NodePortAddresses are the addresses that serve NodePorts of one family. The
// zero value serves none.
type NodePortAddresses struct {
	// Any says that every local address serves, but those in Except, unless they are in Addrs or
	// Prefixes too. Except has the loopback and the link-local range of the family, in this order; it is nil without Any.
	Any    bool
	Except []netip.Prefix

	// Addrs are single addresses of the node, sorted; Prefixes whole ranges of
	// local addresses (loopback), sorted.
	Addrs    []netip.Addr
	Prefixes []netip.Prefix
}

// Serves reports whether NodePorts are served on a local address, which must be one of the machine and of the family.
func (n NodePortAddresses) Serves(local netip.Addr) bool {
	return n.names(local) || n.Any && !containsAddr(n.Except, local)
}

// names reports whether an address is in Addrs or Prefixes.
func (n NodePortAddresses) names(a netip.Addr) bool {
	return slices.Contains(n.Addrs, a) || containsAddr(n.Prefixes, a)
}

// Equal reports whether n and o are the same addresses, for one family.
func (n NodePortAddresses) Equal(o NodePortAddresses) bool {
	return n.Any == o.Any && slices.Equal(n.Addrs, o.Addrs) && slices.Equal(n.Prefixes, o.Prefixes)
}

func (n NodePortAddresses) served() bool { return n.Any || len(n.Addrs) > 0 || len(n.Prefixes) > 0 }

// NodePortAddresses returns on which addresses of this node NodePorts of one
// family are served. The caller must not change its slices.
func (p *Plan) NodePortAddresses(f corev1.IPFamily) NodePortAddresses {
	p = p.orEmpty()
	return p.cfg.nodePorts(f)
}

// nodePorts works on a normalized Config.
func (c Config) nodePorts(f corev1.IPFamily) NodePortAddresses {
	var n NodePortAddresses
	sel, addrs := c.NodePortAddresses, c.Node.addresses(f)
	n.Any = sel.All
	if sel.primary() && len(addrs) > 0 && ordinary(addrs[0]) {
		n.Addrs = append(n.Addrs, addrs[0])
	}
	if sel.Localhost {
		n.Prefixes = append(n.Prefixes, localhost(f))
	}
	for _, p := range sel.Prefixes {
		switch {
		case ip.Family(p.Addr()) != f:
		case p.Bits() == 0:
			n.Any = true
		default:
			n.Prefixes = appendLoopback(n.Prefixes, p)
			n.Addrs = append(n.Addrs, chosen(p, addrs)...)
		}
	}
	if n.Any {
		n.Addrs = slices.DeleteFunc(n.Addrs, ordinary)
		n.Except = []netip.Prefix{localhost(f), linkLocal(f)}
	}
	slices.SortFunc(n.Addrs, netip.Addr.Compare)
	n.Addrs = slices.Compact(n.Addrs)
	n.Prefixes = canonicalPrefixes(n.Prefixes)
	return n
}

// appendLoopback adds the loopback addresses that an entry chooses: itself if it is within them,
// all if it has the one that everybody calls localhost.
func appendLoopback(list []netip.Prefix, p netip.Prefix) []netip.Prefix {
	all := localhost(ip.Family(p.Addr()))
	switch {
	case within(p, all):
		return append(list, p)
	case p.Overlaps(all):
		return append(list, all)
	default:
		return list
	}
}

// chosen lists the addresses that an entry chooses: special ones only if the
// entry is about nothing else.
func chosen(p netip.Prefix, addrs []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range addrs {
		if p.Contains(a) && (ordinary(a) || a.IsLinkLocalUnicast() && within(p, linkLocal(ip.Family(a)))) {
			out = append(out, a)
		}
	}
	return out
}

func ordinary(a netip.Addr) bool { return !a.IsLoopback() && !a.IsLinkLocalUnicast() }

// within reports whether all addresses of p are in the range q.
func within(p, q netip.Prefix) bool { return p.Bits() >= q.Bits() && q.Contains(p.Addr()) }

func linkLocal(f corev1.IPFamily) netip.Prefix {
	if f == corev1.IPv6Protocol {
		return netip.PrefixFrom(netip.AddrFrom16([16]byte{0xfe, 0x80}), 10)
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{169, 254}), 16)
}

func localhost(f corev1.IPFamily) netip.Prefix {
	if f == corev1.IPv6Protocol {
		return netip.PrefixFrom(netip.IPv6Loopback(), 128)
	}
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8)
}

// servesNodePorts reports whether NodePorts are served on a.
func (c Config) servesNodePorts(a netip.Addr) bool {
	n := c.nodePorts(ip.Family(a))
	return n.names(a) || n.Serves(a) && slices.Contains(c.Node.Addresses, a)
}

// Problems lists what is wrong with the configuration, by object and field: a
// family in which a Service wants a NodePort, but none can be served. It is a
// problem of the node (field status.addresses) if "primary" was asked for and the
// node has no such address, else one of nodePortAddresses, which has no entry for
// the family. An entry that chooses no address of this node is none: that is
// how a cluster tells some nodes not to serve. A problem of the field metadata.name says that
// no endpoint has the node's name, although some are in its pod CIDRs or on its addresses.
func (p *Plan) Problems() []Problem {
	p = p.orEmpty()
	list := p.nameProblem()
	sel := p.cfg.NodePortAddresses
	for i, f := range families() {
		if p.nodePorts[i] == 0 || p.rules.family[i].nodePorts {
			continue
		}
		object := strings.TrimSpace("Node " + p.cfg.Node.Name)
		switch {
		case sel.primary():
			list = append(list, Problem{object, "status.addresses", fmt.Sprintf("no primary %s address: no NodePorts in this family", f)})
		case !sel.has(f):
			list = append(list, Problem{object, "nodePortAddresses", fmt.Sprintf("no entry for %s: no NodePorts in this family", f)})
		}
	}
	slices.SortStableFunc(list, func(a, b Problem) int { return strings.Compare(a.Field, b.Field) })
	return list
}
