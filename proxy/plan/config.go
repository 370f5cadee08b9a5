package plan

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/topology"
)

// A Config is what a Plan depends on besides Services and EndpointSlices. A Plan
// copies and normalizes it: ranges and interfaces are a set, addresses lose a zone
// and the mapping of IPv4 into IPv6, and what is not valid is left out.
type Config struct {
	Node Node

	// NodePortAddresses chooses where NodePorts are served. The zero value is
	// the node's primary address of each family.
	NodePortAddresses NodePortSelector

	// PodInterfaces are the interfaces from which packets of this node's own pods
	// come: exact names, or prefixes that end in "*". They count for both families.
	PodInterfaces []string

	// MasqueradeAll masquerades all traffic to ClusterIPs.
	MasqueradeAll bool

	// ServiceCIDRs are the ranges that ClusterIPs are taken from. Addresses in
	// them that no Service has are dropped.
	ServiceCIDRs []netip.Prefix

	// DenyInvalidRanges closes a load-balancer IP of which no source range of its
	// family is usable and at least one could not be parsed. The default leaves it
	// open, as kube-proxy does.
	DenyInvalidRanges bool
}

// A Node is what a Plan knows of the node it is for.
type Node struct {
	Name string // compared byte by byte with the nodeName of endpoints
	Zone string // label topology.kubernetes.io/zone, "" if none

	// Addresses are the addresses of the node in the host's network, as the Node object has them. The
	// first of each family is the primary one. Kernels take every local address for the
	// node's, also those that are missing here; see Trace.IfLocal.
	Addresses []netip.Addr

	// PodCIDRs are the ranges of this node's own pods, not of the whole cluster:
	// with the cluster's range a pod of another node that dials a Local frontend
	// of this node would count as one of ours.
	PodCIDRs []netip.Prefix
}

// Config returns the configuration as the Plan normalized it. Its slices must not
// be changed.
func (p *Plan) Config() Config {
	p = p.orEmpty()
	return p.cfg
}

func (c Config) normal() Config {
	c.Node.Addresses = canonicalAddrs(c.Node.Addresses)
	c.Node.PodCIDRs = disjoint(c.Node.PodCIDRs)
	c.ServiceCIDRs = disjoint(c.ServiceCIDRs)
	c.NodePortAddresses.Prefixes = canonicalPrefixes(c.NodePortAddresses.Prefixes)
	c.PodInterfaces = slices.DeleteFunc(slices.Clone(c.PodInterfaces), func(s string) bool { return s == "" })
	slices.Sort(c.PodInterfaces)
	c.PodInterfaces = slices.Compact(c.PodInterfaces)
	return c
}

// canonicalAddrs keeps the order: the first address of a family is special.
func canonicalAddrs(in []netip.Addr) []netip.Addr {
	var out []netip.Addr
	for _, a := range in {
		if a = ip.Canonical(a); a.IsValid() && !a.IsUnspecified() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

func canonicalPrefixes(in []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range in {
		if p = ip.CanonicalPrefix(p); p.IsValid() {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, ip.ComparePrefixes)
	return slices.Compact(out)
}

// disjoint returns the prefixes that no other contains, in order: together they are the same
// addresses. Data planes have intervals that take no overlaps.
func disjoint(in []netip.Prefix) []netip.Prefix {
	var out []netip.Prefix
	for _, p := range canonicalPrefixes(in) { // one that contains others comes before them
		if n := len(out); n == 0 || !out[n-1].Overlaps(p) {
			out = append(out, p)
		}
	}
	return out
}

// equal compares normalized configurations.
func (c Config) equal(o Config) bool {
	return c.Node.Name == o.Node.Name && c.Node.Zone == o.Node.Zone &&
		slices.Equal(c.Node.Addresses, o.Node.Addresses) && slices.Equal(c.Node.PodCIDRs, o.Node.PodCIDRs) &&
		c.NodePortAddresses.equal(o.NodePortAddresses) && slices.Equal(c.PodInterfaces, o.PodInterfaces) &&
		c.MasqueradeAll == o.MasqueradeAll && slices.Equal(c.ServiceCIDRs, o.ServiceCIDRs) &&
		c.DenyInvalidRanges == o.DenyInvalidRanges
}

// rules is the part of a Config that Service ports depend on: if it stays the
// same, no port can change.
type rules struct {
	node          topology.Node
	masqueradeAll bool
	denyInvalid   bool
	family        [2]familyRules
}

type familyRules struct {
	detector  bool         // pods of the family can be told apart
	nodePorts bool         // NodePorts are served
	addrs     []netip.Addr // of the node
}

func (r *rules) of(f corev1.IPFamily) *familyRules { return &r.family[index(f)] }

func (c Config) rules() rules {
	r := rules{
		node:          topology.Node{Name: c.Node.Name, Zone: c.Node.Zone},
		masqueradeAll: c.MasqueradeAll,
		denyInvalid:   c.DenyInvalidRanges,
	}
	for i, f := range families() {
		r.family[i] = familyRules{
			detector:  len(c.PodInterfaces) > 0 || slices.ContainsFunc(c.Node.PodCIDRs, func(p netip.Prefix) bool { return ip.Family(p.Addr()) == f }),
			nodePorts: c.nodePorts(f).served(),
			addrs:     c.Node.addresses(f),
		}
	}
	return r
}

func (n Node) addresses(f corev1.IPFamily) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(n.Addresses), func(a netip.Addr) bool { return ip.Family(a) != f })
}

func (r rules) equal(o rules) bool {
	if r.node != o.node || r.masqueradeAll != o.masqueradeAll || r.denyInvalid != o.denyInvalid {
		return false
	}
	for i, f := range r.family {
		g := o.family[i]
		if f.detector != g.detector || f.nodePorts != g.nodePorts || !slices.Equal(f.addrs, g.addrs) {
			return false
		}
	}
	return true
}
