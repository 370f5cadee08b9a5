package main

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

func newAnswer(p *plan.Plan, packets []packet, problems []plan.Problem) *answer {
	a := &answer{
		Ports:     []portAnswer{},
		Packets:   make([]packetAnswer, 0, len(packets)),
		Conflicts: []conflictAnswer{},
		Problems:  make([]problemAnswer, 0, len(problems)),
	}
	for port := range p.All() {
		a.Ports = append(a.Ports, newPort(port))
	}
	for _, packet := range packets {
		a.Packets = append(a.Packets, newPacket(packet.text, p.Trace(packet.Packet)))
	}
	for _, c := range p.Conflicts() {
		a.Conflicts = append(a.Conflicts, conflictAnswer{
			Address: frontendText(c.Addr), Protocol: string(c.Protocol), Owner: c.Owner.String(), Loser: c.Loser.String(),
		})
	}
	for _, problem := range problems {
		a.Problems = append(a.Problems, problemAnswer{Object: problem.Object, Field: problem.Field, Error: problem.Err})
	}
	a.sort()
	return a
}

func newPort(port *plan.Port) portAnswer {
	a := portAnswer{
		Name:                port.String(),
		Protocol:            string(port.Protocol),
		Family:              string(port.Family),
		AffinitySeconds:     int(port.AffinityTimeout / time.Second),
		HealthCheckNodePort: int(port.HealthCheckNodePort),
		Cluster:             endpointTexts(port.Cluster),
		Local:               endpointTexts(port.Local),
		Topology:            topologyAnswer{Mode: string(port.Mode), Reason: port.Reason},
		Frontends:           make([]frontendAnswer, 0, len(port.Frontends)),
	}
	frontends := slices.Clone(port.Frontends)
	slices.SortFunc(frontends, func(x, y plan.Frontend) int {
		if x.Kind != y.Kind {
			return int(x.Kind) - int(y.Kind)
		}
		return strings.Compare(frontendText(netip.AddrPortFrom(x.Addr, x.Port)), frontendText(netip.AddrPortFrom(y.Addr, y.Port)))
	})
	for i := range frontends {
		a.Frontends = append(a.Frontends, newFrontend(&frontends[i]))
	}
	return a
}

func newFrontend(f *plan.Frontend) frontendAnswer {
	a := frontendAnswer{
		Kind:    kindText(f.Kind),
		Address: frontendText(netip.AddrPortFrom(f.Addr, f.Port)),
		Actions: actionAnswers{
			Pod:     newAction(f.Actions[plan.FromPod]),
			Node:    newAction(f.Actions[plan.FromNode]),
			Outside: newAction(f.Actions[plan.FromOutside]),
		},
	}
	if f.Restricted {
		a.Allow = make([]string, 0, len(f.Allow))
		for _, r := range f.Allow {
			a.Allow = append(a.Allow, r.String())
		}
		slices.Sort(a.Allow)
	}
	return a
}

func newAction(action plan.Action) actionAnswer {
	return actionAnswer{Verdict: verdictText(action.Verdict), Pool: poolText(action.Pool), Masquerade: action.Masquerade}
}

func newPacket(text string, t plan.Trace) packetAnswer {
	a := packetAnswer{
		Packet:     text,
		Origin:     originText(t.Origin),
		Verdict:    verdictText(t.Verdict),
		Endpoints:  endpointTexts(t.Endpoints),
		Masquerade: t.Masquerade,
		Exempt:     endpointTexts(t.Exempt),
		Hairpin:    endpointTexts(t.Hairpin),
		Reason:     t.Reason,
	}
	if t.Port != nil {
		a.Port = t.Port.String()
	}
	return a
}

func endpointTexts(eps []*endpoints.Endpoint) []string {
	texts := make([]string, 0, len(eps))
	for _, e := range eps {
		texts = append(texts, e.String())
	}
	return texts
}

// frontendText returns "ip:port", "[v6]:port", or ":port" for a node port, whose
// address is invalid.
func frontendText(a netip.AddrPort) string {
	if !a.Addr().IsValid() {
		return ":" + strconv.Itoa(int(a.Port()))
	}
	return a.String()
}

func kindText(k plan.FrontendKind) string {
	switch k {
	case plan.ClusterIP:
		return "ClusterIP"
	case plan.ExternalIP:
		return "ExternalIP"
	case plan.LoadBalancerIP:
		return "LoadBalancerIP"
	case plan.NodePort:
		return "NodePort"
	}
	return ""
}

func originText(o plan.Origin) string {
	switch o {
	case plan.FromPod:
		return "pod"
	case plan.FromNode:
		return "node"
	case plan.FromOutside:
		return "outside"
	}
	return ""
}

func verdictText(v plan.Verdict) string {
	switch v {
	case plan.Pass:
		return "pass"
	case plan.Forward:
		return "forward"
	case plan.Reject:
		return "reject"
	case plan.Drop:
		return "drop"
	}
	return ""
}

func poolText(p plan.Pool) string {
	switch p {
	case plan.ClusterPool:
		return "cluster"
	case plan.LocalPool:
		return "local"
	case plan.NoPool:
	}
	return ""
}
