package proxy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// A batch is what a round has taken up.
type batch struct {
	services  service.Changes
	endpoints endpoints.Changes
	config    *plan.Config // nil if it did not change
	reason    Reason
	full      bool
}

// round does one round. It needs the turn. Ports that the Backend could not write before wait for
// their time, or, if all is set, are tried again.
func (p *Proxy) round(ctx context.Context, all bool) error {
	start := time.Now()
	b := p.begin(start, all)
	if !all {
		p.pipe.backend.cursor.Postpone(p.pipe.retries.later(start))
	}
	notify(&p.events, p.opts.Observer.RoundStarted, b.reason)
	p.events.drain()
	p.pipe.advance(plan.Input{Config: b.config, Services: b.services.Services, Endpoints: b.endpoints.Sets}, b.full)
	p.latest.Store(p.pipe.plan)

	r := Round{Reason: b.reason}
	r.Services, r.Endpoints = p.backlog.size()
	written := p.syncBackend(ctx, &r)
	done := written && p.syncConsumers(ctx, &r)
	r.Held = len(p.pipe.retries.ports)
	r.Duration = time.Since(start)
	p.finish(r, written, done)
	return r.Err
}

// begin takes up what waits. The schedule comes first: an event between both
// asks for a round of its own, so it is at worst looked at twice (#4).
func (p *Proxy) begin(now time.Time, all bool) batch {
	var b batch
	p.mu.Lock()
	b.reason, b.full = p.schedule.begin(now, all)
	if p.changed {
		config := p.config
		b.config = &config
		p.changed = false
	}
	p.mu.Unlock()
	b.services, b.endpoints = p.backlog.take(p.services, p.endpoints)
	return b
}

// syncBackend reports whether the Backend has acknowledged, at least in part.
// Only then the backlog may forget what it has, with its trigger times (#5).
func (p *Proxy) syncBackend(ctx context.Context, r *Round) bool {
	if err := ctx.Err(); err != nil {
		r.Err = fmt.Errorf("proxy: round: %w", err)
		return false
	}
	res, acknowledged := p.pipe.backend.run(ctx, p.pipe.plan)
	if res != nil {
		r.Results = append(r.Results, *res)
		r.Err = res.Err
	}
	if !acknowledged {
		p.pipe.failed()
		return false
	}
	held := servicesOf(p.pipe.acknowledge(r.Err))
	p.tellProgrammed(p.backlog.acknowledge(held))
	return true
}

// syncConsumers runs all other consumers, one failing or not. It reports whether none did.
func (p *Proxy) syncConsumers(ctx context.Context, r *Round) (done bool) {
	var errs []error
	for _, s := range p.pipe.consumers {
		if err := ctx.Err(); err != nil {
			errs = append(errs, fmt.Errorf("proxy: round: %w", err))
			break
		}
		if res, _ := s.run(ctx, p.pipe.shown); res != nil {
			r.Results = append(r.Results, *res)
			errs = append(errs, res.Err)
		}
	}
	failed := joinErrors(errs)
	r.Err = joinErrors([]error{r.Err, failed})
	return failed == nil
}

// joinErrors is errors.Join that returns a single error as it is.
func joinErrors(errs []error) error {
	errs = slices.DeleteFunc(errs, func(err error) bool { return err == nil })
	if len(errs) == 1 {
		return errs[0]
	}
	return errors.Join(errs...)
}

// finish records how the round ended and tells everybody. Written says that the Backend has
// acknowledged, and done that nothing but some ports of the Backend is left.
func (p *Proxy) finish(r Round, written, done bool) {
	backend, worked := r.Backend()
	p.mu.Lock()
	p.schedule.end(time.Now(), outcome{failed: !done, full: written && worked && backend.Full, portsAt: p.pipe.retries.next()})
	if !written {
		p.waiting()
	} else {
		p.progressed(p.pipe.retries.waiting())
	}
	if p.schedule.requested { // by what came in during the round
		p.waiting()
	}
	notify(&p.events, p.opts.Observer.RoundEnded, r)
	p.mu.Unlock()
	p.logRound(r)
	p.tellPlan()
	p.events.drain()
}

// tellProgrammed tells how long the changes took that are now in place.
func (p *Proxy) tellProgrammed(triggers map[types.NamespacedName][]time.Time) {
	f := p.opts.Observer.Programmed
	if f == nil {
		return
	}
	now := time.Now()
	for name, times := range triggers {
		for _, t := range times {
			p.events.push(func() { f(name, max(0, now.Sub(t))) })
		}
	}
}

// tellPlan tells what conflicts and problems of the plan are new and gone. The events wait in
// one queue, which any input drains: they must not be in it before the round is over.
func (p *Proxy) tellPlan() {
	pipe := &p.pipe
	if conflicts := pipe.plan.Conflicts(); !slices.Equal(conflicts, pipe.conflicts) {
		p.tellConflicts(pipe.conflicts, conflicts)
		pipe.conflicts = conflicts
	}
	if problems := pipe.plan.Problems(); !slices.Equal(problems, pipe.problems) {
		p.problemEvents(diffProblems(pipe.problems, problems))
		pipe.problems = problems
	}
}

func (p *Proxy) tellConflicts(before, after []plan.Conflict) {
	for _, c := range missing(before, after) {
		notify(&p.events, p.opts.Observer.ConflictGone, c)
	}
	for _, c := range missing(after, before) {
		notify(&p.events, p.opts.Observer.ConflictFound, c)
	}
}

// servicesOf returns the Services of ports, sorted.
func servicesOf(ports map[plan.Key]*plan.Port) []types.NamespacedName {
	var names []types.NamespacedName
	for k := range ports {
		names = append(names, k.NamespacedName)
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	return slices.Compact(names)
}
