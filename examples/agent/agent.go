package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/healthcheck"
	"github.com/vipkit/vipkit/proxy"
)

// stopLimit is less than the grace period of manifests/daemonset.yaml.
const stopLimit = 8 * time.Second

// gateNode closes the proxy until the node's own object has come.
const gateNode = "node"

// An agent is the parts of the program, put together.
type agent struct {
	opts    options
	logger  *slog.Logger
	backend backends.Backend
	proxy   *proxy.Proxy
	metrics *metrics
	health  *healthcheck.Health
	ports   *healthcheck.Services
	source  source
	node    *nodeState
	tuner   *tuner

	// delivered is closed when all gates are open.
	delivered chan struct{}
}

// A source gives objects to a feed.
type source interface {
	// follow delivers what there is and then what changes, until ctx is done, which
	// is no error. It returns an error if it cannot go on.
	follow(ctx context.Context, to *feed) error
}

// newAgent makes all parts and starts none.
func newAgent(opts options, out io.Writer, logger *slog.Logger) (*agent, error) {
	a := &agent{opts: opts, logger: logger, tuner: newTuner(opts.tuner, logger), delivered: make(chan struct{})}
	var err error
	if a.backend, err = newBackend(opts, logger); err != nil || opts.cleanup || opts.initOnly {
		return a, err
	}
	if a.source, err = newSource(opts, logger); err != nil {
		return nil, err
	}
	a.node = &nodeState{}
	a.metrics = newMetrics(opts.backend)
	a.health = healthcheck.New(healthcheck.Options{NodeEligible: a.node.eligible, OnAnswer: a.metrics.answered})
	// One loop serves both families; it has the backend's name.
	a.ports, err = healthcheck.NewServices(healthcheck.ServicesOptions{
		Loop:     a.health.Loop(opts.backend),
		OnChange: logHealthPort(logger),
	})
	if err != nil {
		return nil, err
	}
	reporter := &reporter{out: out, logger: logger, metrics: a.metrics, tuner: a.tuner}
	a.proxy, err = proxy.New(a.proxyOptions(reporter))
	if err != nil {
		return nil, err
	}
	a.metrics.watch(a.proxy)
	return a, nil
}

func (a *agent) proxyOptions(r *reporter) proxy.Options {
	o := proxy.Options{
		Backend: a.backend,
		Consumers: append(flowConsumers(a.metrics, a.logger),
			proxy.Consumer{Name: "warnings", Syncer: &warnings{backend: a.backend, logger: a.logger}},
			proxy.Consumer{Name: "healthcheck", Syncer: a.ports}),
		Config:        a.opts.node.Config(),
		Gates:         []string{gateNode},
		MinInterval:   a.opts.minSync,
		FullInterval:  orNever(a.opts.fullSync),
		CheckInterval: orNever(a.opts.check),
		Observer:      r.observer(),
	}
	if a.opts.once {
		// Nobody would be there to answer on the health-check ports.
		o.Consumers = o.Consumers[:len(o.Consumers)-1]
	}
	closed := map[string]bool{proxy.GateServices: true, proxy.GateEndpointSlices: true, gateNode: true}
	o.Observer.GateOpened = func(name string) {
		if delete(closed, name); len(closed) == 0 {
			close(a.delivered)
		}
	}
	return o
}

func (a *agent) close() {
	if a.ports != nil {
		a.ports.Close()
	}
}

// run follows the source and programs the node until ctx is done. Rounds run in
// the calling goroutine; all others have ended when it returns.
func (a *agent) run(ctx context.Context) error {
	jobs := newJobs(ctx)
	jobs.start(func(ctx context.Context) error { return a.source.follow(ctx, a.feed()) })
	a.startServers(jobs)
	jobs.do(func(ctx context.Context) error {
		if err := a.ready(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		return a.proxy.Run(ctx)
	})
	return jobs.wait()
}

// once waits until the source has delivered and does one round. That ctx is
// done before is an error here.
func (a *agent) once(ctx context.Context) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	jobs := newJobs(ctx)
	jobs.start(func(ctx context.Context) error { return a.source.follow(ctx, a.feed()) })
	jobs.do(func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-a.delivered:
			return a.proxy.Step(ctx)
		}
	})
	return errors.Join(jobs.wait(), ctx.Err())
}

// jobs are goroutines that end together: when one returns, or when the context
// is done.
type jobs struct {
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu   sync.Mutex
	errs []error
}

func newJobs(ctx context.Context) *jobs {
	ctx, cancel := context.WithCancel(ctx)
	return &jobs{ctx: ctx, cancel: cancel}
}

func (j *jobs) start(f func(context.Context) error) {
	j.wg.Go(func() { j.do(f) })
}

// do runs f in the calling goroutine.
func (j *jobs) do(f func(context.Context) error) {
	defer j.cancel()
	err := f(j.ctx)
	j.mu.Lock()
	defer j.mu.Unlock()
	// What ends because something else did has nothing of its own to say.
	if err != nil && (j.ctx.Err() == nil || !errors.Is(err, context.Canceled)) {
		j.errs = append(j.errs, err)
	}
}

// wait waits until all have ended. One that does not, such as a read from a network file system that
// hangs, is left behind after stopLimit, since the process is about to end.
func (j *jobs) wait() error {
	ended := make(chan struct{})
	go func() {
		j.wg.Wait()
		close(ended)
	}()
	var late error
	select {
	case <-ended:
	case <-time.After(stopLimit):
		late = fmt.Errorf("something did not end within %v", stopLimit)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(append(j.errs, late)...)
}
