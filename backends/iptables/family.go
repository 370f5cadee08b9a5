package iptables

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/ip"
)

// A protocol is the number of a transport protocol.
type protocol uint8

const (
	protocolTCP  protocol = 6
	protocolUDP  protocol = 17
	protocolSCTP protocol = 132
)

func protocolOf(p corev1.Protocol) protocol {
	switch p {
	case corev1.ProtocolUDP:
		return protocolUDP
	case corev1.ProtocolSCTP:
		return protocolSCTP
	case corev1.ProtocolTCP:
	}
	return protocolTCP
}

// String returns the name that iptables uses.
func (p protocol) String() string {
	switch p {
	case protocolUDP:
		return "udp"
	case protocolSCTP:
		return "sctp"
	case protocolTCP:
	}
	return "tcp"
}

// A family is IPv4 or IPv6, and what differs between them.
type family struct {
	ip       corev1.IPFamily
	command  string // begins the names of the programs
	bits     int    // of an address
	loopback netip.Prefix
}

func families() []*family {
	return []*family{
		{ip: corev1.IPv4Protocol, command: "iptables", bits: 32, loopback: netip.MustParsePrefix("127.0.0.0/8")},
		{ip: corev1.IPv6Protocol, command: "ip6tables", bits: 128, loopback: netip.MustParsePrefix("::1/128")},
	}
}

// has reports whether a belongs to the family.
func (f *family) has(a netip.Addr) bool {
	return ip.Family(a) == f.ip
}

// A table is one of the two tables that have our chains.
type table int

const (
	nat table = iota
	filter
	numTables = 2
)

// String returns the name that iptables uses.
func (t table) String() string {
	if t == nat {
		return "nat"
	}
	return "filter"
}

// A hookJump is a jump from a built-in chain to one of ours, the only rules of ours outside
// our own chains.
type hookJump struct {
	base, to string
}

func hookJumps(t table) []hookJump {
	if t == nat {
		return []hookJump{{"PREROUTING", chainServices}, {"OUTPUT", chainServices}, {"POSTROUTING", chainPostrouting}}
	}
	return []hookJump{{"INPUT", chainInput}, {"FORWARD", chainForward}, {"OUTPUT", chainOutput}}
}
