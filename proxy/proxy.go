package proxy

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// Errors returned by [Proxy], for use with [errors.Is].
var (
	ErrRunning     = errors.New("already running")
	ErrGated       = errors.New("waiting for sources")
	ErrUnknownGate = errors.New("no such gate")
)

// A Proxy joins trackers, plan and consumers. All methods are safe for
// concurrent use, before, during and after Run.
type Proxy struct {
	opts      Options
	services  *service.ServiceChangeTracker
	endpoints *endpoints.EndpointsChangeTracker
	backlog   *backlog
	events    events
	listeners []Listener
	wake      chan struct{}             // capacity 1: the loop has to look at the schedule
	turn      chan struct{}             // capacity 1: holds a token while a round or check runs
	latest    atomic.Pointer[plan.Plan] // what Plan returns

	// pipe belongs to whoever holds turn.
	pipe pipeline

	// input is held while an object goes into a tracker, so that the problems
	// recorded are those of the version that the tracker has. It comes before mu.
	input    sync.Mutex
	problems problems
	cidrs    map[string][]netip.Prefix // by name of the ServiceCIDR

	mu       sync.Mutex
	running  bool
	closed   map[string]bool // gates that are not open
	known    []string        // names of all gates
	schedule schedule
	waits    time.Time // since when the listeners believe that something waits, zero if nothing does
	config   plan.Config
	changed  bool // config differs from what the plan was last given
}

// New returns a Proxy that has seen nothing yet. It starts nothing and writes
// nothing. The error names everything that is wrong with opts.
func New(opts Options) (*Proxy, error) {
	opts = opts.withDefaults()
	if err := opts.validate(); err != nil {
		return nil, err
	}
	p := &Proxy{
		opts:      opts,
		services:  service.NewServiceChangeTracker(opts.Services),
		endpoints: endpoints.NewEndpointsChangeTracker(opts.Endpoints),
		backlog:   newBacklog(),
		wake:      make(chan struct{}, 1),
		turn:      make(chan struct{}, 1),
		problems:  problems{},
		cidrs:     map[string][]netip.Prefix{},
		closed:    map[string]bool{},
		known:     append([]string{GateServices, GateEndpointSlices}, opts.Gates...),
		schedule: schedule{
			minInterval:  opts.MinInterval,
			minBackoff:   opts.MinBackoff,
			maxBackoff:   opts.MaxBackoff,
			fullInterval: opts.FullInterval,
			requested:    true, // the first round, as soon as the gates are open
		},
		config: opts.Config,
	}
	if _, ok := opts.Backend.(backends.Checker); ok {
		p.schedule.checkInterval = opts.CheckInterval
	}
	if _, ok := opts.Backend.(backends.Sweeper); ok {
		p.schedule.sweepInterval = opts.SweepInterval
	}
	for _, name := range p.known {
		p.closed[name] = true
	}
	for _, c := range opts.Consumers {
		if l, ok := c.Syncer.(Listener); ok {
			p.listeners = append(p.listeners, l)
		}
	}
	p.config.ServiceCIDRs = mergePrefixes(opts.Config.ServiceCIDRs, nil)
	p.pipe = newPipeline(opts, plan.New(p.config))
	p.latest.Store(p.pipe.plan)
	return p, nil
}

// Pending returns how many Services have changes in their own object, and how many in their EndpointSlices, that the Backend has not
// acknowledged. Objects that came again without a change that is used do not count. Its cost is that of these Services.
func (p *Proxy) Pending() (services, endpoints int) {
	return p.backlog.pending(p.services, p.endpoints)
}

// Plan returns the desired state as of the last round, whether or not the
// Backend could write it. Before the first round it has no Services.
func (p *Proxy) Plan() *plan.Plan { return p.latest.Load() }

// Problems lists what is left out now, sorted by object and field: problems of
// Services, EndpointSlices and ServiceCIDRs at once, those of the configuration as of the last
// round.
func (p *Proxy) Problems() []plan.Problem {
	p.input.Lock()
	all := p.problems.list()
	p.input.Unlock()
	all = append(all, p.Plan().Problems()...)
	slices.SortStableFunc(all, compareProblems)
	return all
}

// Open opens a gate for good: its source has delivered. To open one that is open
// is no error; the error for a gate that was not in [Options] wraps
// ErrUnknownGate.
func (p *Proxy) Open(gate string) error {
	defer p.events.drain()
	p.mu.Lock()
	defer p.mu.Unlock()
	if !slices.Contains(p.known, gate) {
		return fmt.Errorf("proxy: open gate %q: %w", gate, ErrUnknownGate)
	}
	p.open(gate)
	return nil
}

// open needs mu.
func (p *Proxy) open(gate string) {
	if !p.closed[gate] {
		return
	}
	delete(p.closed, gate)
	notify(&p.events, p.opts.Observer.GateOpened, gate)
	p.logGate(gate)
	if len(p.closed) == 0 {
		p.queued()
		p.poke()
	}
}

// gated returns an error that names the gates that are closed. It needs mu.
func (p *Proxy) gated() error {
	if len(p.closed) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrGated, strings.Join(slices.Sorted(maps.Keys(p.closed)), ", "))
}

// Trigger asks for a full round, because what is in place became unknown: a
// Backend, or who watches the data plane, calls it when somebody else
// changed it. It does not wait for the round.
func (p *Proxy) Trigger() {
	defer p.events.drain()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.schedule.reset = ReasonTrigger
	p.request()
}

// request asks for a round. It needs mu. Before the first round, which waits for the
// gates, one is asked for already, so nobody is told that anything waits.
func (p *Proxy) request() {
	if !p.schedule.requested {
		p.schedule.requested = true
		p.queued()
	}
	p.poke()
}

// queued tells everybody that something begins to wait. It needs mu, so that
// the order of queued and updated is that of the schedule.
func (p *Proxy) queued() {
	if f := p.opts.Observer.Queued; f != nil {
		p.events.push(f)
	}
	p.waiting()
}

// waiting tells the listeners that something waits. It needs mu.
func (p *Proxy) waiting() {
	if p.waits.IsZero() {
		p.waits = time.Now()
	}
	for _, l := range p.listeners {
		p.events.push(l.Queued)
	}
}

// updated tells the listeners that the Backend is up to date. It needs mu.
func (p *Proxy) updated() {
	p.waits = time.Time{}
	for _, l := range p.listeners {
		p.events.push(l.Updated)
	}
}

// progressed tells the listeners how things are after the Backend has acknowledged: since when the
// oldest port waits that it could not write, if there is one. If that came later than
// what they count from, all that was older is done. It needs mu.
func (p *Proxy) progressed(oldest time.Time) {
	if oldest.IsZero() || p.waits.Before(oldest) {
		p.updated()
	}
	if !oldest.IsZero() {
		p.waiting()
	}
}

// poke makes the loop look at the schedule.
func (p *Proxy) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
