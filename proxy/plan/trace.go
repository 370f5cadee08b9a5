package plan

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/endpoints"
)

// A Packet opens a connection: the first packet of a flow.
type Packet struct {
	Source      netip.Addr
	Destination netip.AddrPort
	Protocol    corev1.Protocol
	Interface   string // on which it comes in, "" if unknown or none
}

// A Trace is what a Plan says about a Packet.
type Trace struct {
	Packet Packet
	Origin Origin

	Verdict Verdict

	// Endpoints are the possible destinations of a forwarded packet, sorted.
	Endpoints []*endpoints.Endpoint

	// Masquerade is the flag of the action; Exempt are the endpoints on this node's
	// own addresses to which it does not apply; Hairpin the local endpoints that
	// are the source itself, to which the packet is masqueraded in any case.
	Masquerade bool
	Exempt     []*endpoints.Endpoint
	Hairpin    []*endpoints.Endpoint

	// Port and Frontend decided; both nil if none matched.
	Port     *Port
	Frontend *Frontend

	// Reason says in words why.
	Reason string
}
