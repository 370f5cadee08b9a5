package proxy

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A pipeline is the plan and what each consumer knows of it.
type pipeline struct {
	plan      *plan.Plan // desired
	backend   *stage
	retries   retries // of the backend
	consumers []*stage

	// shown is the plan as far as the Backend has acknowledged it, which the other
	// consumers follow: plan with the ports that failed at their old version.
	shown *plan.Plan

	conflicts []plan.Conflict // as last told to the Observer
	problems  []plan.Problem
}

func newPipeline(opts Options, p *plan.Plan) pipeline {
	pipe := pipeline{plan: p, shown: p, backend: &stage{name: BackendName, syncer: opts.Backend}}
	pipe.retries = retries{minBackoff: opts.MinBackoff, maxBackoff: opts.MaxBackoff}
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

// acknowledge shows the consumers what the Backend has written: the plan, with the
// ports that failed as they were. It returns those. Err is what the Backend returned, nil or partial.
func (pipe *pipeline) acknowledge(err error) map[plan.Key]*plan.Port {
	failed := pipe.backend.cursor.Failed()
	pipe.shown = pipe.plan.Hold(failed)
	var errs map[plan.Key]error
	if partial := (*plan.PartialError)(nil); errors.As(err, &partial) {
		errs = partial.Ports
	}
	pipe.retries.note(time.Now(), failed, errs)
	return failed
}

// failed tells the followers what the Backend has tried. Their next Delta is Full, also if nothing is to be done by then: what
// was tried is not in it.
func (pipe *pipeline) failed() {
	for _, s := range pipe.consumers {
		if f, ok := s.syncer.(Follower); ok && pipe.backend.tried != nil {
			f.Tried(pipe.backend.tried)
			s.cursor.Reset()
		}
	}
	pipe.backend.tried = nil
}

// A stage is one consumer with what it may have in place.
type stage struct {
	name   string
	syncer Syncer
	cursor plan.Cursor

	tried *plan.Delta // the last one, if it failed as a whole
}

// run gives the consumer what leads to target. The Result is nil if there was nothing to
// do; acknowledged says that target is in place, but for the ports that the
// cursor calls failed.
func (s *stage) run(ctx context.Context, target *plan.Plan) (res *Result, acknowledged bool) {
	d := s.cursor.Delta(target)
	if d == nil {
		return nil, true
	}
	res = &Result{Name: s.name, Full: d.Full, Changes: len(d.Changes)}
	start := time.Now()
	err := s.syncer.Sync(ctx, d)
	res.Duration = time.Since(start)
	if r, ok := s.syncer.(backends.Reporter); ok {
		res.Stats = r.LastStats()
	}
	acknowledged = s.cursor.Done(d, err)
	s.tried = nil
	if !acknowledged {
		s.tried = d
	}
	if err == nil {
		return res, true
	}
	res.Err = fmt.Errorf("proxy: sync %s: %w", s.name, err)
	if partial := (*plan.PartialError)(nil); acknowledged && errors.As(err, &partial) {
		res.Failed = len(partial.Ports)
	}
	return res, acknowledged
}
