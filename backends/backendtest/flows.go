package backendtest

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/proxy/plan"
)

// keepOpen opens one more connection of a line that has an open tag.
func (p *player) keepOpen(c *caller, v variant) {
	if c.line.open == "" {
		return
	}
	conn, res, err := p.lab.Open(c.probe(0, p.pace.answer))
	if err != nil || conn == nil {
		c.failed("open %s: %s, %v", c.line.open, res.Outcome, err)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := c.line.open + " " + v.String()
	if old := p.conns[key]; old != nil {
		old.Close() //nolint:errcheck // it is not needed any more
	}
	p.conns[key] = conn
}

// checkOpen looks what became of a connection that was opened in an earlier step.
func (p *player) checkOpen(t *testing.T, l line, v variant) {
	t.Helper()
	if p.lab == nil || !p.counts(l, v.protocol) {
		return
	}
	p.mu.Lock()
	conn := p.conns[l.conn()+" "+v.String()]
	p.mu.Unlock()
	problem := ""
	switch {
	case conn == nil: // SCTP without sockets
	case l.alive != "":
		if err := conn.Ping(p.pace.answer); err != nil {
			problem = err.Error()
		}
	default:
		problem = p.checkLeft(conn, l.pool, v)
	}
	if problem != "" {
		t.Errorf("%s: %s: %s", v, l.text, problem)
	}
}

// checkLeft returns what is wrong with a flow that must go on at one of the pool, or must
// have ended if the pool is empty; "" if nothing. The first datagram may be the one that
// tells the data plane that the old endpoint is gone.
func (p *player) checkLeft(conn *netlab.Conn, pool []target, v variant) string {
	err := conn.Ping(p.pace.silence)
	switch {
	case err != nil && len(pool) > 0:
		err = conn.Ping(p.pace.answer)
	case errors.Is(err, os.ErrDeadlineExceeded):
		client := p.book.addrs["client"][v.family]
		control := netlab.Probe{From: "client", Source: client, Destination: netip.AddrPortFrom(client, 0), Protocol: v.protocol, Timeout: p.pace.answer}
		if problem := p.patiently(control, func(wait time.Duration) (silent bool, _ error) {
			err = conn.Ping(wait)
			return errors.Is(err, os.ErrDeadlineExceeded), nil
		}); problem != nil {
			return problem.Error()
		}
	}
	switch server := conn.Answer().Server; {
	case err != nil && len(pool) > 0:
		return err.Error()
	case err == nil && p.index(pool, server) < 0:
		return "reached " + p.name(server)
	}
	return ""
}

func (p *player) closeAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close() //nolint:errcheck // they were only there to stay open
	}
}

// traffic makes connections all the time for every flow that is forwarded before and
// after a change. Each must reach an endpoint of one or the other pool. The function
// that it returns ends them and reports what went wrong.
func (p *player) traffic(t *testing.T, before, after []line) (stop func()) {
	t.Helper()
	done := make(chan struct{})
	var started, ended sync.WaitGroup
	p.each(before, func(old line, v variant) {
		for _, l := range after {
			if old.from == "" || old.flow() != l.flow() || old.verdict != plan.Forward || l.verdict != plan.Forward {
				continue
			}
			if old.sticks != spread || l.sticks != spread || !p.sent(old, v) || !p.sent(l, v) {
				continue
			}
			s := &steady{player: p, line: l, old: old, packets: l.packets(p.book, v)}
			started.Add(1)
			ended.Go(func() {
				if problem := s.run(&started, done); problem != "" {
					t.Errorf("%s: %s: during the change: %s", v, l.text, problem)
				}
			})
			break
		}
	})
	started.Wait()
	return sync.OnceFunc(func() {
		close(done)
		ended.Wait()
	})
}

// A steady flow is one that must work before, during and after a change.
type steady struct {
	*player

	line, old line
	packets   packets
}

// probe sends a probe. Of a data plane that does not drain UDP the endpoint may go between a datagram and
// its answer, but not twice.
func (s *steady) probe(probe netlab.Probe) (netlab.Result, error) {
	if !s.limited(NoUDPDrain, probe.Protocol) && !s.limited(StaleUDPEnds, probe.Protocol) {
		return s.lab.Probe(probe)
	}
	short := probe
	short.Timeout = s.pace.silence
	res, err := s.lab.Probe(short)
	if err == nil && res.Outcome == netlab.NoAnswer {
		return s.lab.Probe(probe)
	}
	return res, err
}

// run makes connections until done is closed, and one more. It returns what went wrong,
// "" if nothing.
func (s *steady) run(started *sync.WaitGroup, done <-chan struct{}) string {
	first := sync.OnceFunc(started.Done)
	defer first()
	for last := false; ; {
		start := time.Now()
		if problem := s.call(); problem != "" {
			return problem
		}
		first()
		if last {
			return ""
		}
		select {
		case <-done:
			last = true
		case <-time.After(time.Since(start)): // leave half of the time to the others
		}
	}
}

func (s *steady) call() string {
	probe := netlab.Probe{
		From: s.packets.host, Source: s.packets.sources[0], Destination: s.packets.destination,
		Protocol: s.packets.protocol, Timeout: s.pace.answer,
	}
	res, err := s.probe(probe)
	switch {
	case err != nil:
		return err.Error()
	case res.Outcome != netlab.Answered:
		return fmt.Sprintf("%s: %s", describe(s.packets.packet(0)), res.Outcome)
	case s.index(s.line.pool, res.Answer.Server) < 0 && s.index(s.old.pool, res.Answer.Server) < 0:
		return fmt.Sprintf("%s: reached %s", describe(s.packets.packet(0)), s.name(res.Answer.Server))
	}
	return ""
}
