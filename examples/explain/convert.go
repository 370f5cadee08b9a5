package main

import (
	"cmp"
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
			Address: conflictText(c.Addr), Protocol: string(c.Protocol), Owner: c.Owner.String(), Loser: c.Loser.String(),
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
		Name:                port.PortName.String(),
		Protocol:            string(port.Protocol),
		Family:              string(port.Family),
		AffinitySeconds:     int(port.AffinityTimeout / time.Second),
		HealthCheckNodePort: int(port.HealthCheckNodePort),
		Cluster:             endpointTexts(port.Cluster),
		Local:               endpointTexts(port.Local),
		Topology:            topologyAnswer{Mode: port.Mode.String(), Reason: port.Reason},
		Frontends:           make([]frontendAnswer, 0, len(port.Frontends)),
	}
	frontends := slices.Clone(port.Frontends)
	slices.SortFunc(frontends, func(x, y plan.Frontend) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), strings.Compare(x.String(), y.String()))
	})
	for i := range frontends {
		a.Frontends = append(a.Frontends, newFrontend(&frontends[i]))
	}
	return a
}

func newFrontend(f *plan.Frontend) frontendAnswer {
	a := frontendAnswer{
		Kind:    f.Kind.String(),
		Address: f.String(),
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
	return actionAnswer{Verdict: action.Verdict.String(), Pool: action.Pool.String(), Masquerade: action.Masquerade}
}

func newPacket(text string, t plan.Trace) packetAnswer {
	a := packetAnswer{
		Packet:     text,
		Origin:     t.Origin.String(),
		Verdict:    t.Verdict.String(),
		Endpoints:  endpointTexts(t.Endpoints),
		Masquerade: t.Masquerade,
		Exempt:     endpointTexts(t.Exempt),
		Hairpin:    endpointTexts(t.Hairpin),
		Reason:     t.Reason,
	}
	if t.Port != nil {
		a.Port = t.Port.PortName.String()
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

// conflictText returns the address as that of a frontend: a node port has none.
func conflictText(a netip.AddrPort) string {
	if !a.Addr().IsValid() {
		return ":" + strconv.Itoa(int(a.Port()))
	}
	return a.String()
}
