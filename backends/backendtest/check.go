package backendtest

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
)

// each calls f for every line in every variant.
func (p *player) each(lines []line, f func(line, variant)) {
	for _, l := range lines {
		for _, v := range p.scenario.variants {
			f(l, v)
		}
	}
}

// check looks whether everything is as expected: what Trace says, and what happens to
// packets. Lines are tried at the same time, up to one that has to be waited for.
func (p *player) check(t *testing.T, expect []line) {
	t.Helper()
	for len(expect) > 0 {
		n := slices.IndexFunc(expect, func(l line) bool { return l.wait != 0 })
		if n < 0 {
			n = len(expect)
		}
		p.checkTogether(t, expect[:n])
		if n < len(expect) && p.lab != nil {
			pause(t, expect[n].wait)
		}
		expect = expect[min(n+1, len(expect)):]
	}
	if t.Failed() {
		p.show(t)
	}
}

// pause lets the kernel's own timers run, which know nothing of synctest.
func pause(t *testing.T, d time.Duration) {
	t.Helper()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
}

func (p *player) checkTogether(t *testing.T, expect []line) {
	t.Helper()
	var wg sync.WaitGroup
	p.each(expect, func(l line, v variant) {
		if l.conn() != "" {
			p.checkOpen(t, l, v)
			return
		}
		p.checkTrace(t, l, v)
		if p.sent(l, v) {
			run := p.prepare(t, l, v)
			wg.Go(run)
		}
	})
	wg.Wait()
}

// sent reports whether packets of a line are sent in a variant.
func (p *player) sent(l line, v variant) bool {
	if p.lab == nil || l.from == "" {
		return false
	}
	proto := l.packets(p.book, v).protocol
	return p.counts(l, proto) && (!p.noSCTP || proto != corev1.ProtocolSCTP)
}

// counts reports whether a line is about this data plane.
func (p *player) counts(l line, proto corev1.Protocol) bool {
	has := func(limit Limit) bool { return p.limited(limit, proto) }
	return !slices.ContainsFunc(l.unless, has) && (l.onlyIf == "" || has(l.onlyIf))
}

// limited reports whether the data plane has a limit that concerns a protocol.
func (p *player) limited(limit Limit, proto corev1.Protocol) bool {
	return slices.Contains(p.cfg.Limits, limit) && (limit != NoUDPDrain && limit != StaleUDPEnds || proto == corev1.ProtocolUDP)
}

// checkTrace compares what the plan, and a Backend that can, say of a line's packets.
func (p *player) checkTrace(t *testing.T, l line, v variant) {
	t.Helper()
	if l.onlyIf != "" {
		return // true of some data planes, not of the plan
	}
	tracers := map[string]Tracer{"plan": p.world.plan}
	if len(p.failing) > 0 {
		delete(tracers, "plan") // not all of it is in place
	}
	if b, ok := p.backend.(Tracer); ok {
		tracers["backend"] = b
	}
	pk := l.packets(p.book, v)
	for name, tracer := range tracers {
		for i := range pk.sources {
			trace := tracer.Trace(pk.packet(i))
			if d := p.compareTrace(l, trace); d != "" {
				t.Errorf("%s: %s: %s's trace of %s: %s (%s)", v, l.text, name, describe(pk.packet(i)), d, trace.Reason)
				break
			}
		}
	}
}

func describe(p plan.Packet) string {
	text := fmt.Sprintf("%s from %s to %s", p.Protocol, p.Source, p.Destination)
	if p.Interface != "" {
		text += " on " + p.Interface
	}
	return text
}

// compareTrace returns what is wrong, "" if nothing.
func (p *player) compareTrace(l line, trace plan.Trace) string {
	if trace.Verdict != l.verdict {
		return fmt.Sprintf("got %s, want %s", verdictName(trace.Verdict), verdictName(l.verdict))
	}
	if l.verdict != plan.Forward {
		return ""
	}
	var wrong []string
	seen := make([]bool, len(l.pool))
	for _, e := range trace.Endpoints {
		i := p.index(l.pool, e.Addr)
		if i < 0 {
			wrong = append(wrong, fmt.Sprintf("%s is not expected", p.name(e.Addr)))
			continue
		}
		seen[i] = true
		if trace.Masquerades(e) != l.pool[i].masquerade {
			wrong = append(wrong, fmt.Sprintf("masquerade to %s: got %t", p.name(e.Addr), trace.Masquerades(e)))
		}
	}
	for i, ok := range seen {
		if !ok {
			wrong = append(wrong, fmt.Sprintf("%s is missing", l.pool[i].place))
		}
	}
	return strings.Join(wrong, "; ")
}

// index returns which of the targets an address is, -1 if none.
func (p *player) index(pool []target, a netip.AddrPort) int {
	return slices.IndexFunc(pool, func(t target) bool {
		return strings.TrimRight(t.place, "46") == p.book.byAddr[a.Addr()] && (t.port == 0 || t.port == a.Port())
	})
}

// name returns an endpoint as scenarios write it.
func (p *player) name(a netip.AddrPort) string {
	if n := p.book.byAddr[a.Addr()]; n != "" {
		return fmt.Sprintf("%s:%d", n, a.Port())
	}
	return a.String()
}

func verdictName(v plan.Verdict) string {
	return map[plan.Verdict]string{plan.Pass: "pass", plan.Forward: "forward", plan.Reject: "reject", plan.Drop: "drop"}[v]
}
