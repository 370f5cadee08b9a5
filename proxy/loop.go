package proxy

import (
	"context"
	"fmt"
	"time"

	"github.com/vipkit/vipkit/backends"
)

// Run does rounds when they are due until ctx is done, and returns after the last
// one ended. It begins with the Backend's Probe, if it has one, and returns its error.
// That ctx is done is no error. What a round fails with goes to the Observer.
//
// Run may be called again after it returned, but not while it runs: the error
// wraps ErrRunning. What is in the data plane stays there.
func (p *Proxy) Run(ctx context.Context) error {
	if err := p.start(); err != nil {
		return err
	}
	defer p.stop()
	if err := p.probe(ctx); err != nil {
		return err
	}
	p.mu.Lock()
	p.updated()
	p.mu.Unlock()
	p.events.drain()
	for ctx.Err() == nil {
		now := time.Now()
		switch d := p.due(now); {
		case d.round || d.check || d.sweep:
			p.work(ctx)
		default:
			p.sleep(ctx, d.at, now)
		}
	}
	return nil
}

// Step does one round now, in the calling goroutine, whatever the intervals
// and backoffs say, and returns what the round failed with. While a gate is closed it
// does nothing and returns an error that wraps ErrGated. Step may be used instead
// of Run, or beside it.
func (p *Proxy) Step(ctx context.Context) error {
	if err := p.takeTurn(ctx); err != nil {
		return fmt.Errorf("proxy: step: %w", err)
	}
	defer p.endTurn()
	p.mu.Lock()
	err := p.gated()
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("proxy: step: %w", err)
	}
	return p.round(ctx, true)
}

func (p *Proxy) start() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running {
		return fmt.Errorf("proxy: run: %w", ErrRunning)
	}
	p.running = true
	p.schedule.restart(time.Now())
	return nil
}

func (p *Proxy) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = false
}

// takeTurn waits until no round or check runs. It is a channel and no mutex so
// that ctx ends the waiting.
func (p *Proxy) takeTurn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case p.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *Proxy) endTurn() {
	<-p.turn
	p.poke() // the schedule has changed
	p.events.drain()
}

func (p *Proxy) probe(ctx context.Context) error {
	prober, ok := p.opts.Backend.(backends.Prober)
	if !ok {
		return nil
	}
	if p.takeTurn(ctx) != nil {
		return nil // the loop ends for the same reason
	}
	defer p.endTurn()
	if err := prober.Probe(ctx); err != nil && ctx.Err() == nil {
		return fmt.Errorf("proxy: probe %s: %w", BackendName, err)
	}
	return nil
}

// A dueWork is what the schedule asks for.
type dueWork struct {
	round, check, sweep bool
	at                  time.Time // when to look again if none; zero: when poked
}

func (p *Proxy) due(now time.Time) dueWork {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.closed) > 0 {
		return dueWork{}
	}
	return dueWork{
		round: p.schedule.roundDue(now),
		check: p.schedule.checkDue(now),
		sweep: p.schedule.sweepDue(now),
		at:    p.schedule.next(now),
	}
}

// sleep waits until at, until somebody pokes, or until ctx is done.
func (p *Proxy) sleep(ctx context.Context, at, now time.Time) {
	var expired <-chan time.Time
	if !at.IsZero() {
		timer := time.NewTimer(at.Sub(now))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-ctx.Done():
	case <-p.wake:
	case <-expired:
	}
}

// work does what is due once it has the turn: a Step may have done it meanwhile.
func (p *Proxy) work(ctx context.Context) {
	if p.takeTurn(ctx) != nil {
		return
	}
	defer p.endTurn()
	d := p.due(time.Now())
	if d.check {
		p.check(ctx) // first, as rounds may be due all the time
	}
	if d.sweep {
		p.sweep(ctx)
	}
	if d.round {
		// The error has gone to the Observer, and the schedule knows of it.
		_ = p.round(ctx, false)
	}
}

// check lets the Backend compare the data plane with what it wrote. It needs the turn.
func (p *Proxy) check(ctx context.Context) {
	checker, isChecker := p.opts.Backend.(backends.Checker)
	if !isChecker {
		return
	}
	changed, err := checker.Check(ctx)
	if ctx.Err() != nil {
		return // the answer means nothing
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.schedule.checked(time.Now())
	if f := p.opts.Observer.Checked; f != nil {
		p.events.push(func() { f(changed, err) })
	}
	p.logCheck(changed, err)
	if len(changed) > 0 {
		p.schedule.reset = ReasonCheck
		p.request()
	}
}

// sweep lets the Backend remove what has drained. It needs the turn.
func (p *Proxy) sweep(ctx context.Context) {
	sweeper, isSweeper := p.opts.Backend.(backends.Sweeper)
	if !isSweeper {
		return
	}
	left, err := sweeper.Sweep(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.schedule.swept(time.Now())
	if err != nil {
		p.schedule.reset = ReasonRetry
		p.request()
	}
	if err != nil && ctx.Err() != nil {
		return // it was cut short, and the next round knows
	}
	if f := p.opts.Observer.Swept; f != nil {
		p.events.push(func() { f(left, err) })
	}
	p.logSweep(left, err)
}
