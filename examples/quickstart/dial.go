package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

// silence is how long to wait before no answer is taken for none. What is forwarded here
// answers within a millisecond.
const silence = 700 * time.Millisecond

// dial opens the connections of all flows, or only asks the plan about them, and tells
// what became of them. What did not go as the plan says is an error.
func (d *demo) dial(ctx context.Context, p *plan.Plan, flows []flow) error {
	var errs []error
	for _, f := range flows {
		if err := ctx.Err(); err != nil {
			return err
		}
		packet, err := f.packet()
		if err != nil {
			return err
		}
		trace := p.Trace(packet)
		d.printf("%s: %s -> %s %s\n", f.what, f.source, f.to, strings.ToLower(string(f.proto)))
		if d.lab == nil {
			d.printf("   %s\n", planned(trace))
		} else {
			seen, err := d.connect(packet, f.count, trace.Verdict)
			if err != nil {
				return err
			}
			d.printf("   %s\n", seen)
			errs = append(errs, seen.check(f.what, trace, p.Config().Node.Addresses))
		}
		d.printf("   why: %s\n", trace.Reason)
	}
	d.printf("\n")
	return errors.Join(errs...)
}

func planned(t plan.Trace) string {
	if t.Verdict != plan.Forward {
		return t.Verdict.String()
	}
	texts := make([]string, 0, len(t.Endpoints))
	for _, e := range t.Endpoints {
		texts = append(texts, e.String())
	}
	return "to " + strings.Join(texts, " or ")
}

// An answer is which server answered, and which client it saw.
type answer struct {
	server netip.AddrPort
	client netip.Addr
}

// A tally counts what became of connections.
type tally struct {
	answers         map[answer]int
	refused, silent int
}

func (d *demo) connect(packet plan.Packet, count int, verdict plan.Verdict) (tally, error) {
	t := tally{answers: make(map[answer]int)}
	probe := netlab.Probe{
		From: d.lab.Owner(packet.Source), Source: packet.Source,
		Destination: packet.Destination, Protocol: packet.Protocol,
	}
	if verdict == plan.Drop {
		probe.Timeout = silence
	}
	for range count {
		res, err := d.lab.Probe(probe)
		if err != nil {
			return tally{}, err
		}
		switch res.Outcome {
		case netlab.Answered:
			t.answers[answer{res.Answer.Server, res.Answer.Peer.Addr()}]++
		case netlab.Refused:
			t.refused++
		case netlab.NoAnswer:
			t.silent++
		}
	}
	return t, nil
}

// String returns for instance "24x 10.244.1.10:8080, 36x 10.244.2.10:8080, who saw
// 10.244.1.5".
func (t tally) String() string {
	servers, clients := map[string]int{}, map[string]bool{}
	for a, n := range t.answers {
		servers[a.server.String()] += n
		clients[a.client.String()] = true
	}
	var words []string
	for _, s := range slices.Sorted(maps.Keys(servers)) {
		words = append(words, fmt.Sprintf("%dx %s", servers[s], s))
	}
	if len(clients) > 0 {
		words = append(words, "who saw "+strings.Join(slices.Sorted(maps.Keys(clients)), " and "))
	}
	if t.refused > 0 {
		words = append(words, fmt.Sprintf("%dx refused at once", t.refused))
	}
	if t.silent > 0 {
		words = append(words, fmt.Sprintf("%dx no answer: dropped", t.silent))
	}
	return strings.Join(words, ", ")
}

// check compares what was seen with what the plan says.
func (t tally) check(what string, trace plan.Trace, node []netip.Addr) error {
	ok := false
	switch trace.Verdict {
	case plan.Forward:
		ok = t.refused == 0 && t.silent == 0
	case plan.Reject:
		ok = len(t.answers) == 0 && t.silent == 0
	case plan.Drop:
		ok = len(t.answers) == 0 && t.refused == 0
	case plan.Pass: // the demo has nothing to say about other people's packets
		ok = true
	}
	servers := map[netip.AddrPort]bool{}
	for a := range t.answers {
		ok = ok && answers(trace, a, node)
		servers[a.server] = true
	}
	if trace.Port != nil && trace.Port.AffinityTimeout > 0 && len(servers) > 1 {
		ok = false
	}
	if !ok {
		return fmt.Errorf("%s: the plan says %q, but seen was %q", what, planned(trace), t)
	}
	return nil
}

// answers reports whether a planned endpoint answered and saw the right client.
func answers(trace plan.Trace, a answer, node []netip.Addr) bool {
	is := func(e *endpoints.Endpoint) bool { return e.Addr == a.server }
	i := slices.IndexFunc(trace.Endpoints, is)
	if i < 0 {
		return false
	}
	if trace.Masquerades(trace.Endpoints[i]) {
		return slices.Contains(node, a.client)
	}
	return a.client == trace.Packet.Source
}
