package nftables

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/internal/ip"
)

// layoutVersion is part of the marker chain's name. Raise it when the meaning of
// an object changes without its text.
const layoutVersion = 2

// Hook priorities. They are part of what other programs on the node may rely
// on: see the package documentation.
const (
	priorityFirewall = "-110" // before DNAT, so that the VIP is still the destination
	priorityDNAT     = "-100" // dstnat, as a number: nft 1.0.6 takes the word in prerouting only
	priorityFilter   = "0"    // after DNAT: what still has a frontend as its destination was not forwarded
	prioritySNAT     = "100"  // srcnat
)

// Names of the objects that every table has.
const (
	boxServices          = "service-ips"
	boxNodePorts         = "service-nodeports"
	boxNoEndpointIPs     = "no-endpoint-ips"
	boxNoEndpointPorts   = "no-endpoint-nodeports"
	boxRestricted        = "restricted-ips"
	boxAllowed           = "allowed-sources"
	boxRestrictedPorts   = "restricted-nodeports"
	boxAllowedPorts      = "allowed-nodeport-sources"
	boxClusterIPs        = "cluster-ips"
	boxPodCIDRs          = "pod-cidrs"
	boxServiceCIDRs      = "service-cidrs"
	boxNodePortAddresses = "nodeport-addresses"

	chainServices        = "services"
	chainNodePorts       = "nodeports"
	chainFirewall        = "firewall"
	chainFirewallPorts   = "firewall-nodeports"
	chainNoEndpoint      = "no-endpoint"
	chainNoEndpointPorts = "no-endpoint-nodeport"
	chainClusterIPs      = "cluster-ip"
	chainHairpin         = "hairpin"
	chainRefuse          = "refuse" // "reject" is a word of the nft language
)

// localSlots is the slot number of the first endpoint of a local pool; the
// cluster pool begins at 0.
const localSlots = 65536

// A protocol is a transport protocol as nft spells it.
type protocol string

func protocolOf(p corev1.Protocol) protocol {
	switch p {
	case corev1.ProtocolUDP:
		return "udp"
	case corev1.ProtocolSCTP:
		return "sctp"
	case corev1.ProtocolTCP:
	}
	return "tcp"
}

func protocols() []protocol { return []protocol{"tcp", "udp", "sctp"} }

// A family is one of the two tables and what differs between them.
type family struct {
	ip       corev1.IPFamily
	nft      string // as nft spells it
	addrType string // of a set's key
}

func families() []*family {
	return []*family{
		{ip: corev1.IPv4Protocol, nft: "ip", addrType: "ipv4_addr"},
		{ip: corev1.IPv6Protocol, nft: "ip6", addrType: "ipv6_addr"},
	}
}

// has reports whether a belongs to the family.
func (f *family) has(a netip.Addr) bool {
	return ip.Family(a) == f.ip
}

// A field is one part of the key of a set or map.
type field int

const (
	fieldAddr   field = iota // key.addr
	fieldProto               // key.proto
	fieldPort                // key.port
	fieldSlot                // key.n, a result of numgen
	fieldNumber              // key.n, in the packet priority
	fieldPrefix              // key.src, a range
)

// A value kind is what a map gives.
type valueKind int

const (
	noValue valueKind = iota // a set
	verdictValue
	addrPortValue
	numberValue // in the packet priority
)

// A box is a set or map.
type box struct {
	name     string
	key      []field
	value    valueKind
	proto    protocol // whose port the key has, "" if for all
	dynamic  bool     // written by packets
	size     int      // 0: no limit
	interval bool
}

// mereRanges reports whether the key is a range and nothing else.
func (b box) mereRanges() bool { return b.interval && len(b.key) == 1 }

// boxes returns the sets and maps that every table has.
func boxes() []box {
	frontend, nodePort := []field{fieldAddr, fieldProto, fieldPort}, []field{fieldProto, fieldPort}
	all := []box{
		{name: boxServices, key: frontend, value: verdictValue},
		{name: boxNodePorts, key: nodePort, value: verdictValue},
		{name: boxNoEndpointIPs, key: frontend, value: verdictValue},
		{name: boxNoEndpointPorts, key: nodePort, value: verdictValue},
		{name: boxRestricted, key: frontend},
		{name: boxAllowed, key: []field{fieldAddr, fieldProto, fieldPort, fieldPrefix}, interval: true},
		{name: boxRestrictedPorts, key: nodePort},
		{name: boxAllowedPorts, key: []field{fieldProto, fieldPort, fieldPrefix}, interval: true},
		{name: boxClusterIPs, key: []field{fieldAddr}},
		{name: boxPodCIDRs, key: []field{fieldPrefix}, interval: true},
		{name: boxServiceCIDRs, key: []field{fieldPrefix}, interval: true},
		{name: boxNodePortAddresses, key: []field{fieldPrefix}, interval: true},
	}
	for _, in := range places() {
		k := frontend
		if in.nodePort {
			k = nodePort
		}
		all = append(all,
			box{name: in.sizes(), key: k, value: numberValue},
			box{name: in.picks(), key: []field{fieldProto, fieldNumber}, value: verdictValue})
	}
	for _, p := range protocols() {
		all = append(all,
			box{name: boxEndpoints(p, false), key: []field{fieldAddr, fieldPort, fieldSlot}, value: addrPortValue, proto: p},
			box{name: boxEndpoints(p, true), key: []field{fieldPort, fieldSlot}, value: addrPortValue, proto: p})
	}
	return all
}

// A place is where an endpoint is chosen from: one of the pools, by the address that was
// dialed or, for NodePorts, without it.
type place struct {
	nodePort bool
	local    bool
}

func places() []place {
	return []place{{}, {local: true}, {nodePort: true}, {nodePort: true, local: true}}
}

// prefixed makes a name as in "nodeport-local-sizes".
func (p place) prefixed(what string) string {
	if p.local {
		what = "local-" + what
	}
	if p.nodePort {
		what = "nodeport-" + what
	}
	return what
}

// sizes names the map from a frontend to the number of endpoints in its pool.
func (p place) sizes() string { return p.prefixed("sizes") }

// picks names the map from a size to the chain that chooses one of so many endpoints.
func (p place) picks() string { return p.prefixed("picks") }

// pick names the chain that looks up both.
func (p place) pick() string { return p.prefixed("pick") }

// offset returns the slot of the pool's first endpoint.
func (p place) offset() int {
	if p.local {
		return localSlots
	}
	return 0
}

// boxEndpoints names the map from a frontend and a slot to an endpoint.
func boxEndpoints(p protocol, nodePort bool) string {
	if nodePort {
		return "nodeport-endpoints-" + string(p)
	}
	return "endpoints-" + string(p)
}

// A key is the key of an element. Which parts count is up to the box.
type key struct {
	addr  netip.Addr
	proto protocol
	port  uint16
	n     uint32
	src   netip.Prefix
}

// A value is what an element gives, the zero value in a set.
type value struct {
	verdict string
	dst     netip.AddrPort
	number  uint32
}

// An element is a member of a set or map.
type element struct {
	id      elementID
	value   value
	comment string
}

// An elementID names an element of a table.
type elementID struct {
	box string
	key key
}

// A hook makes a chain a base chain.
type hook struct {
	kind     knftables.BaseChainType
	at       knftables.BaseChainHook
	priority knftables.BaseChainPriority // a number
}

// A chain is a chain with its rules as text.
type chain struct {
	name  string
	hook  *hook // nil for a regular chain
	rules []string
}

func gotoChain(name string) string { return "goto " + name }
