package shadow

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A Packet opens a connection. The addresses and the protocol are as upstream's tables have them.
type Packet struct {
	Source, Protocol, Destination string
	Port                          int
}

// A Fate is what upstream's tracer says about a packet: "", "DROP", "REJECT", or endpoints.
type Fate struct {
	Output     string
	Masquerade bool
}

// A Table compares the rules that a backend of upstream wrote to a plan, packet by packet.
type Table struct {
	Area string
	Plan *plan.Plan

	// Rejects says that the backend rejects packets to ports of a ClusterIP that no Service has,
	// as nftables does and iptables does not.
	Rejects bool
}

// Compare records how the plan's answer compares to upstream's. Where names the packet.
func (t Table) Compare(where string, packet Packet, upstream Fate) {
	trace, err := t.trace(packet)
	if err != nil {
		Differ(t.Area, Unexplained, "%s: %v", where, err)
		return
	}
	ours := fateOf(trace)
	id := t.difference(packet, upstream, trace)
	if id == "" {
		Agree(t.Area)
		return
	}
	Differ(t.Area, id, "%s: %v: upstream %+v, vipkit %+v from %s (%s)", where, packet, upstream, ours, trace.Origin, trace.Reason)
}

// trace asks the plan.
func (t Table) trace(p Packet) (plan.Trace, error) {
	src, err := netip.ParseAddr(p.Source)
	if err != nil {
		return plan.Trace{}, err
	}
	dst, err := netip.ParseAddr(p.Destination)
	if err != nil {
		return plan.Trace{}, err
	}
	protocol := corev1.ProtocolTCP
	if p.Protocol != "" {
		protocol = corev1.Protocol(strings.ToUpper(p.Protocol))
	}
	return t.Plan.Trace(plan.Packet{
		Source: src, Destination: netip.AddrPortFrom(dst, uint16(p.Port)), Protocol: protocol,
	}), nil
}

func fateOf(t plan.Trace) Fate {
	switch t.Verdict {
	case plan.Forward:
		return Fate{Output: join(texts(t.Endpoints)), Masquerade: t.Masquerade || len(t.Hairpin) > 0}
	case plan.Reject:
		return Fate{Output: "REJECT"}
	case plan.Drop:
		return Fate{Output: "DROP"}
	default:
		return Fate{}
	}
}

// difference returns the id of a difference, "" if there is none. That a packet is masqueraded
// has a meaning only if it is forwarded.
func (t Table) difference(p Packet, upstream Fate, trace plan.Trace) string {
	ours := fateOf(trace)
	theirs := strings.Split(upstream.Output, ", ")
	slices.Sort(theirs)
	mine := strings.Split(ours.Output, ", ")
	slices.Sort(mine)
	same := slices.Equal(theirs, mine)
	switch {
	case same && (trace.Verdict != plan.Forward || upstream.Masquerade == ours.Masquerade):
		return ""
	case same && slices.Contains(hosts(trace.Endpoints), p.Source):
		return "hairpin-by-address"
	case upstream.Output == "" && ours.Output == "REJECT" && trace.Port == nil && !t.Rejects:
		return "unused-port-of-a-cluster-ip"
	case upstream.Output == "REJECT" && ours.Output == "DROP" && trace.Frontend != nil && trace.Frontend.Restricted:
		return "source-ranges-before-reject"
	case upstream.Output == "ACCEPT" && ours.Output == "":
		return "health-check-port-accepted"
	case upstream.Output == "" && p.Destination == netip.IPv6Loopback().String():
		return "node-port-on-ipv6-loopback"
	}
	return Unexplained
}

func hosts(eps []*endpoints.Endpoint) []string {
	var out []string
	for _, e := range eps {
		out = append(out, e.Addr.Addr().String())
	}
	return out
}
