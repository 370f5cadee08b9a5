package backendtest

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/proxy/plan"
)

const (
	perEndpoint = 20 // connections for each endpoint
	perSilence  = 2  // tries that must get no answer, or be refused

	perEndpointQuick = 4 // if each was reached by then
	perClient        = 4 // connections of each client with affinity
)

// A pace says how long to wait for packets in a lab.
type pace struct {
	answer  time.Duration // for what shall come
	silence time.Duration // for what shall not
}

// measure finds out how fast the machine is: in an emulated one everything takes
// longer.
func measure(t *testing.T, lab *netlab.Lab) pace {
	t.Helper()
	dst := netip.MustParseAddrPort("10.200.2.9:7")
	if err := lab.Serve(dst, corev1.ProtocolTCP); err != nil {
		t.Fatal(err)
	}
	var slowest time.Duration
	for range 5 {
		start := time.Now()
		res, err := lab.Probe(netlab.Probe{From: "client", Destination: dst, Protocol: corev1.ProtocolTCP})
		if err != nil || res.Outcome != netlab.Answered {
			t.Fatalf("the network does not work: %s, %v", res.Outcome, err)
		}
		slowest = max(slowest, time.Since(start))
	}
	return pace{
		answer:  min(max(200*slowest, 10*time.Second), time.Minute),
		silence: min(max(20*slowest, 250*time.Millisecond), 3*time.Second),
	}
}

// serve starts the servers that the scenario asks for itself.
func (p *player) serve(t *testing.T) {
	t.Helper()
	for _, v := range p.scenario.variants {
		if p.noSCTP && v.protocol == corev1.ProtocolSCTP {
			continue
		}
		for _, text := range p.scenario.listen {
			name, port, _ := strings.Cut(text, ":")
			a, err := p.book.lookup(name, v.family)
			if err != nil {
				t.Fatal(err)
			}
			number, err := strconv.ParseUint(port, 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			p.serveAt(t, netip.AddrPortFrom(a, uint16(number)), v.protocol)
		}
	}
}

// serveEndpoints starts servers at all endpoints of the plan, whether ready or not.
func (p *player) serveEndpoints(t *testing.T) {
	t.Helper()
	for port := range p.world.plan.All() {
		for _, e := range port.Serving {
			p.serveAt(t, e.Addr, port.Protocol)
		}
		for _, e := range port.Reachable {
			p.serveAt(t, e.Addr, port.Protocol)
		}
	}
}

func (p *player) serveAt(t *testing.T, a netip.AddrPort, proto corev1.Protocol) {
	t.Helper()
	if p.lab == nil || p.noSCTP && proto == corev1.ProtocolSCTP || p.lab.Owner(a.Addr()) == "" {
		return
	}
	if err := p.lab.Serve(a, proto); err != nil {
		t.Fatal(err)
	}
}

// prepare returns a function that sends the packets of a line and reports what is
// wrong. What it needs of the player, it gets now.
func (p *player) prepare(t *testing.T, l line, v variant) func() {
	t.Helper()
	c := &caller{player: p, line: l, packets: l.packets(p.book, v), seen: make([]bool, len(l.pool))}
	c.failed = func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s: %s: %s", v, l.text, fmt.Sprintf(format, args...))
	}
	switch {
	case l.verdict == plan.Forward && l.sticks != spread:
		c.found, c.timeout = p.memory(l, v), p.affinity(c.packets)
		return c.callSticky
	case l.verdict == plan.Forward:
		return func() {
			c.callAll(perEndpoint * len(l.pool))
			p.keepOpen(c, v)
		}
	case l.verdict == plan.Pass && len(l.pool) > 0:
		return func() { c.callAll(perSilence) }
	default:
		return c.callRefused
	}
}

// A caller sends the packets of one line.
type caller struct {
	*player

	line    line
	packets packets
	failed  func(format string, args ...any)
	seen    []bool // which endpoints of the pool were reached

	// For sticky lines: where each client has been, and how long that is remembered.
	found   map[string]visit
	timeout time.Duration
}

func (c *caller) probe(i int, timeout time.Duration) netlab.Probe {
	return netlab.Probe{
		From: c.packets.host, Source: c.packets.sources[i%len(c.packets.sources)],
		Destination: c.packets.destination, Protocol: c.packets.protocol, Timeout: timeout,
	}
}

// callAll makes connections, each of which must be answered by an endpoint of the
// pool, and all of them be reached.
func (c *caller) callAll(n int) {
	for i := range n {
		if c.quick && i >= perEndpointQuick*len(c.seen) && !slices.Contains(c.seen, false) {
			return
		}
		if _, ok := c.call(i); !ok {
			return
		}
	}
	for i, ok := range c.seen {
		if !ok {
			c.failed("%d connections, and none reached %s", n, c.line.pool[i].place)
		}
	}
}

// call makes one connection, and returns which endpoint answered.
func (c *caller) call(i int) (endpoint string, ok bool) {
	probe := c.probe(i, c.pace.answer)
	res, err := c.lab.Probe(probe)
	switch {
	case err != nil:
		c.failed("%s: %v", c.sent(i), err)
		return "", false
	case res.Outcome != netlab.Answered:
		c.failed("%s: %s", c.sent(i), res.Outcome)
		return "", false
	}
	return c.accept(i, res.Answer)
}

// accept looks whether an answer is one of those expected.
func (c *caller) accept(i int, a netlab.Answer) (endpoint string, ok bool) {
	endpoint = c.name(a.Server)
	k := c.index(c.line.pool, a.Server)
	if k < 0 {
		c.failed("%s: reached %s", c.sent(i), endpoint)
		return endpoint, false
	}
	c.seen[k] = true
	if w := c.wrongSource(i, c.line.pool[k], a); w != "" {
		c.failed("%s: %s %s", c.sent(i), endpoint, w)
		return endpoint, false
	}
	return endpoint, true
}

// wrongSource says what is wrong with the source address that a server saw.
func (c *caller) wrongSource(i int, t target, a netlab.Answer) string {
	source := c.packets.sources[i%len(c.packets.sources)]
	peer := a.Peer.Addr()
	switch {
	case c.line.verdict == plan.Pass || !t.masquerade:
		if peer != source {
			return fmt.Sprintf("saw source %s, want it kept", peer)
		}
	case peer == source || c.book.hosts[c.book.byAddr[peer]] != netlab.NodeName:
		return fmt.Sprintf("saw source %s, want it masqueraded", peer)
	}
	return ""
}

func (c *caller) sent(i int) string { return describe(c.packets.packet(i % len(c.packets.sources))) }

// callRefused makes connections that nobody shall answer.
func (c *caller) callRefused() {
	want, try := netlab.NoAnswer, c.silent
	if c.line.verdict == plan.Reject || c.line.passed == "refused" {
		want = netlab.Refused
	}
	// Linux's SCTP takes an ICMP error for a reason to try again.
	either := want == netlab.Refused && c.packets.protocol == corev1.ProtocolSCTP
	if want == netlab.Refused && !either {
		try = func(i int) (netlab.Result, error) { return c.lab.Probe(c.probe(i, c.pace.answer)) }
	}
	for i := range perSilence {
		res, err := try(i)
		switch {
		case err != nil:
			c.failed("%s: %v", c.sent(i), err)
			return
		case res.Outcome == netlab.Answered:
			c.failed("%s: reached %s, want %s", c.sent(i), c.name(res.Answer.Server), want)
			return
		case res.Outcome != want && !either:
			c.failed("%s: %s, want %s", c.sent(i), res.Outcome, want)
			return
		}
	}
}

// sendGone looks whether a packet of a line is left alone.
func (p *player) sendGone(t *testing.T, l line, v variant, when string) {
	t.Helper()
	c := &caller{player: p, line: l, packets: l.packets(p.book, v)}
	res, err := c.silent(0)
	if err != nil || res.Outcome == netlab.Answered {
		t.Errorf("%s: %s: %s: reached %s, %v", v, l.text, when, p.name(res.Answer.Server), err)
	}
}

// controlPort is where the suite has servers of its own, which every host reaches without a Service.
const controlPort = 7

// serveControl starts the servers that say how long an answer takes.
func (p *player) serveControl(t *testing.T) {
	t.Helper()
	for _, f := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		for _, proto := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
			p.serveAt(t, netip.AddrPortFrom(p.book.addrs["q"][f], controlPort), proto)
		}
	}
}

// silent sends a packet that must get no answer.
func (c *caller) silent(i int) (res netlab.Result, err error) {
	err = c.patiently(c.probe(i, c.pace.answer), func(wait time.Duration) (silent bool, err error) {
		res, err = c.lab.Probe(c.probe(i, wait))
		return res.Outcome == netlab.NoAnswer, err
	})
	return res, err
}

// patiently tries something that may meet silence. Silence counts only for longer than an answer takes: a packet from the same host is
// answered without any Service right afterwards, and if that takes longer than the silence lasted, both are tried again.
func (p *player) patiently(control netlab.Probe, try func(wait time.Duration) (silent bool, err error)) error {
	family := corev1.IPv4Protocol
	if control.Destination.Addr().Is6() {
		family = corev1.IPv6Protocol
	}
	control.Destination = netip.AddrPortFrom(p.book.addrs["q"][family], controlPort)
	for wait := p.pace.silence; ; {
		silent, err := try(wait)
		if err != nil || !silent {
			return err
		}
		start := time.Now()
		answer, err := p.lab.Probe(control)
		took := time.Since(start)
		switch {
		case err != nil:
			return err
		case answer.Outcome != netlab.Answered:
			return fmt.Errorf("the network itself does not work: %s from %s to %s: %s", control.Protocol, control.Source, control.Destination, answer.Outcome)
		case took <= wait:
			return nil
		}
		wait = 2 * took
	}
}
