package plan

import (
	"net/netip"
)

// A Config is what a Plan depends on besides Services and EndpointSlices.
// Slices in a Config must not be changed once it was given to a Plan.
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

	// Addresses are the addresses of the node in the host's network. The first of
	// each family is the primary one.
	Addresses []netip.Addr

	// PodCIDRs are the ranges of this node's own pods, not of the whole cluster:
	// with the cluster's range a pod of another node that dials a Local frontend
	// of this node would count as one of ours.
	PodCIDRs []netip.Prefix
}

// A NodePortSelector chooses addresses of a node. The zero value means Primary.
type NodePortSelector struct {
	All       bool           // every local address but loopback and link-local
	Primary   bool           // the node's primary address of each family
	Localhost bool           // 127.0.0.0/8 and ::1
	Prefixes  []netip.Prefix // node addresses inside
}

// ParseNodePortSelector reads the values of kube-proxy's nodePortAddresses: CIDRs
// and the words "primary", "localhost" and "all". No values mean "primary". A CIDR of length
// zero means "all". The error names the value that could not be read.
func ParseNodePortSelector(values []string) (NodePortSelector, error) { panic("not yet") }

// NodePortAddresses are the addresses that serve NodePorts of one family.
type NodePortAddresses struct {
	// Any says that every local address serves, but loopback and link-local
	// ones that are not in Addrs or Prefixes.
	Any bool

	// Addrs are single addresses of the node, sorted; Prefixes whole ranges of
	// local addresses (loopback), sorted.
	Addrs    []netip.Addr
	Prefixes []netip.Prefix
}
