package netlab

import (
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// NodeName is the name of the namespace in the middle of a [Lab].
const NodeName = "node"

// Options say what a [Lab] looks like.
type Options struct {
	// Node are the addresses of the node. They are put on Uplink. The
	// first of each family is the one that the node uses by itself, so it is the
	// source address of what it masquerades; the others must be asked for.
	Node []netip.Addr

	// Hosts are what is connected to the node.
	Hosts []Host

	// Uplink is the name of the host that the node's default route leads to. The
	// host drops what is not for it.
	Uplink string
}

// A Host is a namespace that is connected to the node by one veth pair: a pod, a
// client, or another node with all its pods.
type Host struct {
	// Name is unique, and not [NodeName].
	Name string

	// Interface is the name of the node's end of the veth pair, at most 15
	// bytes. The other end is eth0.
	Interface string

	// Addresses are the host's own, of both families. The first of each family is
	// the one that the host uses by itself.
	Addresses []netip.Addr
}

// An Outcome is what became of a [Probe].
type Outcome int

// The outcomes.
const (
	NoAnswer Outcome = iota // nothing came back in time
	Answered                // a server answered
	Refused                 // an ICMP error or a reset came back
)

// String returns "no answer", "answered" or "refused".
func (o Outcome) String() string {
	switch o {
	case Answered:
		return "answered"
	case Refused:
		return "refused"
	case NoAnswer:
	}
	return "no answer"
}

// A Probe is one new connection, or one datagram with its answer.
type Probe struct {
	// From is the name of the host that sends, or [NodeName].
	From string

	// Source is the address to send from; if invalid, the host chooses. The
	// port is always one that this Lab has not used for some ten thousand probes,
	// so that no connection-tracking entry of an earlier one gets in the way.
	Source netip.Addr

	Destination netip.AddrPort
	Protocol    corev1.Protocol

	// Timeout is how long to wait for an answer; 0 means 5 seconds.
	Timeout time.Duration
}

// An Answer is what a server says about a connection.
type Answer struct {
	// Server is the address and port that the server was reached at, after all
	// translations.
	Server netip.AddrPort

	// Peer is the client's address and port as the server sees them.
	Peer netip.AddrPort
}

// A Result is the outcome of a [Probe].
type Result struct {
	Outcome Outcome
	Answer  Answer // valid if Outcome is Answered
}
