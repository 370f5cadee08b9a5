package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"time"
)

// A verdict is how one mutant ended.
type verdict struct {
	*mutant
	kind string // of the stage that noticed it; empty if none did
	by   string // the test
	// left is how many tests that reach it were not run, for want of time; reached how many there are.
	left, reached int
	took          time.Duration
	err           error // the run ended before it
}

// judge runs the tests that reach a mutant, stage by stage, until one fails or the mutant's time is over.
func (l *lab) judge(ctx context.Context, t target, m *mutant, budget time.Duration) verdict {
	start := time.Now()
	v := verdict{mutant: m}
	for _, s := range t.stages {
		b := l.benches[stage{dir: s.dir, suite: s.suite}]
		chunks := b.chunks(m.id)
		for _, c := range chunks {
			v.reached += len(c.names)
			if v.kind != "" {
				continue
			}
			if time.Since(start) > budget {
				v.left += len(c.names)
				continue
			}
			out, err := b.run(ctx, c.names, c.limit, fmt.Sprintf("%s=%d", envMutant, m.id))
			if ctx.Err() != nil {
				v.err = ctx.Err()
				return v
			}
			if err != nil {
				v.kind, v.by = s.kind, blame(out, err)
			}
		}
	}
	v.took = time.Since(start)
	return v
}

// A chunk is some tests that are run by one process.
type chunk struct {
	names []string
	limit time.Duration
}

// chunks returns the tests that reach a mutant in pieces of some seconds each.
func (b *bench) chunks(id int) []chunk {
	const piece, slack, slower = 5 * time.Second, 10 * time.Second, 5
	var out []chunk
	var c chunk
	var sum time.Duration
	for _, t := range b.tests {
		if !t.reached[id] {
			continue
		}
		if sum+t.took > piece && len(c.names) > 0 {
			out = append(out, c)
			c, sum = chunk{}, 0
		}
		sum += t.took
		c.names = append(c.names, t.name)
		c.limit = slack + slower*sum
	}
	if len(c.names) > 0 {
		out = append(out, c)
	}
	return out
}

// blame names the test that failed.
func blame(out []byte, err error) string {
	if errors.Is(err, errSlow) {
		return "its deadline"
	}
	if m := regexp.MustCompile(`--- FAIL: (\S+)`).FindAllSubmatch(out, 2); m != nil {
		return string(m[len(m)-1][1])
	}
	if m := regexp.MustCompile(`(?m)^(panic|fatal error): .*`).Find(out); m != nil {
		return string(m)
	}
	return "a crash"
}

// A job is a mutant and how to judge it.
type job struct {
	target target
	mutant *mutant
}

// judgeAll judges some mutants at a time and yields the verdicts as they come.
func (l *lab) judgeAll(ctx context.Context, list []job, budget time.Duration) <-chan verdict {
	queue, out := make(chan job), make(chan verdict)
	var workers sync.WaitGroup
	for range l.jobs {
		workers.Go(func() {
			for j := range queue {
				if ctx.Err() != nil {
					out <- verdict{mutant: j.mutant, err: ctx.Err()}
					continue
				}
				out <- l.judge(ctx, j.target, j.mutant, budget)
			}
		})
	}
	go func() {
		for _, j := range list {
			queue <- j
		}
		close(queue)
		workers.Wait()
		close(out)
	}()
	return out
}
