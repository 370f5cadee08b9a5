package proxy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A pipeline is the plan and what each consumer knows of it.
type pipeline struct {
	plan      *plan.Plan // desired
	backend   *stage
	consumers []*stage

	// shown is the plan as far as the Backend has acknowledged it, which the other
	// consumers follow: plan with the ports in held at their old version, nil if they
	// did not exist.
	shown *plan.Plan
	held  map[plan.Key]*plan.Port

	conflicts []plan.Conflict // as last told to the Observer
	problems  []plan.Problem
}

func newPipeline(opts Options, p *plan.Plan) pipeline {
	pipe := pipeline{plan: p, shown: p, backend: &stage{name: BackendName, syncer: opts.Backend}}
	for _, c := range opts.Consumers {
		pipe.consumers = append(pipe.consumers, &stage{name: c.Name, syncer: c.Syncer})
	}
	return pipe
}

// advance makes the next plan and tells every cursor what is different.
func (pipe *pipeline) advance(in plan.Input, full bool) {
	next, diff := pipe.plan.Update(in)
	pipe.plan = next
	for _, s := range pipe.stages() {
		s.cursor.Note(diff)
		if full {
			s.cursor.Reset()
		}
	}
}

func (pipe *pipeline) stages() []*stage {
	return append([]*stage{pipe.backend}, pipe.consumers...)
}

// acknowledge takes down that the Backend has written the plan but the failed
// ports, and tells the consumers of ports that are held from now on or no longer.
func (pipe *pipeline) acknowledge(failed map[plan.Key]error) {
	held := make(map[plan.Key]*plan.Port, len(failed))
	for k := range failed {
		old, wasHeld := pipe.held[k]
		if !wasHeld {
			old = pipe.shown.Port(k)
		}
		held[k] = old
	}
	diff := plan.Diff{Ports: keysOf(pipe.held, held)}
	pipe.held = held
	pipe.shown = pipe.plan
	if len(held) > 0 {
		pipe.shown = pipe.plan.Hold(held)
	}
	if len(diff.Ports) == 0 {
		return
	}
	for _, s := range pipe.consumers {
		s.cursor.Note(diff)
	}
}

// keysOf returns the keys of both maps, sorted.
func keysOf(a, b map[plan.Key]*plan.Port) []plan.Key {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.SortFunc(keys, plan.Key.Compare)
	return slices.Compact(keys)
}

// A stage is one consumer with what it may have in place.
type stage struct {
	name   string
	syncer Syncer
	cursor plan.Cursor
}

// run gives the consumer what leads to target; worked is false if there was
// nothing to do.
func (s *stage) run(ctx context.Context, target *plan.Plan) (res Result, worked bool) {
	d := s.cursor.Delta(target)
	if d == nil {
		return Result{}, false
	}
	res = Result{Name: s.name, Full: d.Full, Changes: len(d.Changes)}
	if d.Full {
		res.Changes = target.Len()
	}
	start := time.Now()
	err := s.syncer.Sync(ctx, d)
	res.Duration = time.Since(start)
	s.cursor.Done(d, err)
	if err != nil {
		res.Failed = len(failedPorts(err))
		res.Err = fmt.Errorf("proxy: sync %s: %w", s.name, err)
	}
	return res, true
}

// acknowledged reports whether err, as returned by a consumer, means that all
// ports but some were done.
func acknowledged(err error) bool {
	var partial *plan.PartialError
	return err == nil || errors.As(err, &partial)
}

func failedPorts(err error) map[plan.Key]error {
	var partial *plan.PartialError
	if errors.As(err, &partial) {
		return partial.Ports
	}
	return nil
}
