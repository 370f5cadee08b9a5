package main

import (
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

// A contender is a proxy with a copy of the network.
type contender struct {
	name  string
	lab   *netlab.Lab
	proxy backendtest.Proxy
}

// A difference is a question that was not answered alike.
type difference struct {
	Seed  uint64            `json:"seed"`
	Step  int               `json:"step"`
	Kind  string            `json:"kind"` // packet, affinity, coverage, health or sync
	Probe string            `json:"probe"`
	Got   map[string]string `json:"got"` // by contender
	Plan  string            `json:"plan"`
	Why   string            `json:"why"` // the plan's reason
	ID    string            `json:"id"`  // of the known cause, "" if none

	moved []string // of an affinity question: the contenders that did not stay where they should
}

const (
	atOnce   = 80 // probes under way in each network
	short    = 700 * time.Millisecond
	medium   = 3 * time.Second
	long     = 6 * time.Second
	rounds   = 4  // of ten tries, until a contender has reached what anybody has
	lookMost = 24 // how many differences of a state are looked at again
)

// A comparison sends the same probes through all contenders.
type comparison struct {
	contenders []contender
	gates      []chan struct{}
	fresh      int // the last address that coverage used
	counts     map[string]int
	mu         sync.Mutex
}

func newComparison(contenders []contender) *comparison {
	c := &comparison{contenders: contenders, counts: map[string]int{}}
	for range contenders {
		c.gates = append(c.gates, make(chan struct{}, atOnce))
	}
	return c
}

func (c *comparison) count(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[what] += n
}

// send sends one probe through the j-th contender.
func (c *comparison) send(j int, p probe, patience time.Duration) string {
	c.gates[j] <- struct{}{}
	defer func() { <-c.gates[j] }()
	c.count("packets through "+c.contenders[j].name, 1)
	res, err := c.contenders[j].lab.Probe(netlab.Probe{From: p.from, Source: p.source, Destination: p.to, Protocol: p.proto, Timeout: patience})
	if err != nil {
		return "error: " + strings.ReplaceAll(err.Error(), " ", "_")
	}
	return result(res)
}

// A question is a probe, what the plan says, and what each contender answered.
type question struct {
	probe
	expectation
	got    []map[string]int
	rounds int // that missing took
}

func (c *comparison) clear(q *question) {
	q.rounds = 0
	q.got = make([]map[string]int, len(c.contenders))
	for j := range q.got {
		q.got[j] = map[string]int{}
	}
}

// ask sends the probe of each question as often as tries says for each contender, all at the same time.
func (c *comparison) ask(questions []*question, tries func(q *question, j int) int, patience func(q *question) time.Duration) {
	var wg sync.WaitGroup
	for _, q := range questions {
		for j := range c.contenders {
			for range tries(q, j) {
				wg.Go(func() {
					r := c.send(j, q.probe, patience(q))
					c.mu.Lock()
					defer c.mu.Unlock()
					q.got[j][r]++
				})
			}
		}
	}
	wg.Wait()
}

// packets asks plain questions: new connections and datagrams, until every contender has reached every endpoint that any of them
// has or that the plan names. What differs then is asked anew with more patience, since a busy machine loses packets.
func (c *comparison) packets(questions []*question) []difference {
	c.count("questions", len(questions))
	for _, q := range questions {
		c.clear(q)
	}
	first := func(q *question, _ int) int {
		if q.want[timeout] {
			return 2
		}
		return 4
	}
	c.ask(questions, first, patient)
	for c.missing(questions, patient) {
	}
	bad := slices.DeleteFunc(slices.Clone(questions), (*question).alike)
	if len(bad) > lookMost {
		c.count("differences not looked at again", len(bad)-lookMost)
		bad = bad[:lookMost]
	}
	still := c.again(bad)
	c.count("alike at the second look", len(bad)-len(still))
	out := make([]difference, 0, len(still))
	for _, q := range still {
		out = append(out, c.differs("packet", q))
	}
	return out
}

// patient is how long to wait: long for what should be answered.
func patient(q *question) time.Duration {
	if q.want[timeout] {
		return short
	}
	return medium
}

// missing asks those contenders once more that have not reached what others have, and reports whether there were any. It gives up on a
// question after some rounds: what is not reached by then is a difference, or a case for the second look.
func (c *comparison) missing(questions []*question, patience func(*question) time.Duration) bool {
	var todo []*question
	for _, q := range questions {
		if q.rounds < q.patience() && slices.ContainsFunc(q.lacking(), func(lacks bool) bool { return lacks }) {
			q.rounds++
			todo = append(todo, q)
		}
	}
	again := make(map[*question][]bool, len(todo))
	for _, q := range todo {
		again[q] = q.lacking()
	}
	c.ask(todo, func(q *question, j int) int {
		if again[q][j] {
			return 10
		}
		return 0
	}, patience)
	return len(todo) > 0
}

// patience is how many rounds of ten tries a question gets: with a pool of n endpoints one of them is missed by all of
// them once in some ten thousand times, and the second look has as many.
func (q *question) patience() int { return 2 + 2*len(q.union()) }

// lacking says of each contender whether it has not reached all of the union.
func (q *question) lacking() []bool {
	out := make([]bool, len(q.got))
	for j := range q.got {
		mine := q.plainly(j)
		for outcome := range q.union() {
			out[j] = out[j] || mine[outcome] == 0
		}
	}
	return out
}

// union is every answer that the plan or a contender has.
func (q *question) union() map[string]bool {
	all := map[string]bool{}
	if !q.vague {
		maps.Copy(all, q.want)
	}
	for j := range q.got {
		for outcome := range q.plainly(j) {
			all[outcome] = true
		}
	}
	maps.DeleteFunc(all, func(outcome string, _ bool) bool { return !answered(outcome) })
	return all
}

func (q *question) plainly(j int) map[string]int {
	out := map[string]int{}
	for outcome, n := range q.got[j] {
		out[plain(outcome)] += n
	}
	return out
}

// again asks everything from the start, a few times.
func (c *comparison) again(bad []*question) []*question {
	for range 2 {
		if len(bad) == 0 {
			break
		}
		for _, q := range bad {
			c.clear(q)
		}
		c.ask(bad, func(*question, int) int { return 4 }, func(*question) time.Duration { return long })
		for c.missing(bad, func(*question) time.Duration { return long }) {
		}
		bad = slices.DeleteFunc(bad, (*question).alike)
	}
	return bad
}

// alike compares contenders to the last bit, and the plan by its words. Where the network swallows the packets to some of the
// endpoints, it is chance who has met one of these.
func (q *question) alike() bool {
	for j := range q.got {
		if !slices.Equal(q.outcomes(j), q.outcomes(0)) {
			return false
		}
		if q.vague {
			continue
		}
		if len(q.plainly(j)) != len(q.want) {
			return false
		}
		for outcome := range q.plainly(j) {
			if !q.want[outcome] {
				return false
			}
		}
	}
	return true
}

// outcomes are the answers of a contender that do not depend on chance.
func (q *question) outcomes(j int) []string {
	return slices.DeleteFunc(sortedKeys(q.got[j]), func(o string) bool { return q.vague && o == timeout })
}

func (c *comparison) differs(kind string, q *question) difference {
	d := difference{Kind: kind, Probe: q.probe.String(), Got: map[string]string{}, Plan: strings.Join(sortedKeys(q.want), " | "), Why: q.trace.Reason}
	for j, one := range c.contenders {
		d.Got[one.name] = strings.Join(sortedKeys(q.got[j]), " | ")
	}
	return d
}
