package main

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A memory is what clients with affinity reached at the last state, by contender, client and frontend.
type memory map[string]string

// sticky asks frontends with affinity several times in a row from one client. It must stay, also over a change if its endpoint does.
func (c *comparison) sticky(questions []*question, last memory) (diffs []difference, now memory) {
	now = memory{}
	groups := map[string][]*question{} // one client of one Service port: one after the other
	for _, q := range questions {
		c.clear(q)
		key := fmt.Sprintf("%s %s %s %s", q.trace.Port.PortName, q.proto, q.from, q.trace.Packet.Source)
		groups[key] = append(groups[key], q)
	}
	c.count("questions with affinity", len(questions))
	var wg sync.WaitGroup
	for _, group := range groups {
		for j := range c.contenders {
			wg.Go(func() {
				for _, q := range group {
					c.repeat(j, q)
				}
			})
		}
	}
	wg.Wait()
	for key, group := range groups {
		for _, q := range group {
			var moved []string
			for j, one := range c.contenders {
				at := one.name + " " + key + " " + q.to.String()
				if !c.stays(q, j, last[at], samePool(group)) {
					moved = append(moved, one.name)
				}
				if samePool(group) {
					now[at] = server(q.got[j])
				}
			}
			if len(moved) > 0 {
				d := c.differs("affinity", q)
				d.moved = moved
				diffs = append(diffs, d)
			}
		}
	}
	return diffs, now
}

// repeat asks one contender a question four times.
func (c *comparison) repeat(j int, q *question) {
	for range 4 {
		r := c.send(j, q.probe, medium)
		if r == timeout && !q.want[timeout] {
			r = c.send(j, q.probe, long)
		}
		q.got[j][r]++
	}
}

// stays reports whether one contender answered with one endpoint of the plan's, and with the client's last one if that is still
// in the pool and every frontend of the port has the same.
func (c *comparison) stays(q *question, j int, before string, same bool) bool {
	if q.vague {
		return true
	}
	if len(q.got[j]) != 1 {
		return false
	}
	for outcome := range q.plainly(j) {
		if !q.want[outcome] {
			return false
		}
	}
	in := slices.ContainsFunc(sortedKeys(q.want), func(o string) bool { return strings.HasPrefix(o, before+" ") })
	if before == "" || !same || !in {
		return true
	}
	c.count("affinity seen again after a change", 1)
	return server(q.got[j]) == before
}

func server(got map[string]int) string {
	for outcome := range got {
		if s, _, ok := strings.Cut(outcome, " "); ok {
			return s
		}
	}
	return ""
}

func samePool(group []*question) bool {
	pool := func(q *question) []netip.AddrPort {
		var out []netip.AddrPort
		for _, e := range q.trace.Endpoints {
			out = append(out, e.Addr)
		}
		return out
	}
	return !slices.ContainsFunc(group, func(q *question) bool { return !slices.Equal(pool(q), pool(group[0])) })
}

// newClients is how many clients coverage takes, enough to reach each of five endpoints but once in 10⁸ times.
const newClients = 90

// coverage asks a frontend with affinity from clients that nobody used before: all of the pool must be reached.
func (c *comparison) coverage(cl *cluster, pl *plan.Plan, like *question) []difference {
	if like.trace.Verdict != plan.Forward {
		return nil
	}
	q := &question{probe: like.probe}
	q.from = "out1"
	q.source = netip.MustParseAddr(fmt.Sprintf("198.19.%d.1", c.fresh&255))
	if q.to.Addr().Is6() {
		q.source = netip.MustParseAddr(fmt.Sprintf("2001:db8:5:1::%x:1", c.fresh))
	}
	c.fresh++
	q.expectation = cl.expect(pl, q.probe)
	if q.trace.Verdict != plan.Forward || q.vague || len(q.want) < 2 {
		return nil
	}
	c.clear(q)
	c.count("pools covered", 1)
	var wg sync.WaitGroup
	source := q.source
	for range newClients {
		p := q.probe
		p.source = source
		source = source.Next()
		for j := range c.contenders {
			wg.Go(func() {
				s, _, _ := strings.Cut(c.send(j, p, long), " ")
				c.mu.Lock()
				defer c.mu.Unlock()
				q.got[j][s]++
			})
		}
	}
	wg.Wait()
	want := map[string]bool{}
	for outcome := range q.want {
		s, _, _ := strings.Cut(outcome, " ")
		want[s] = true
	}
	q.want = want
	if slices.ContainsFunc(q.got, func(got map[string]int) bool { return !slices.Equal(sortedKeys(got), sortedKeys(want)) }) {
		return []difference{c.differs("coverage", q)}
	}
	return nil
}
