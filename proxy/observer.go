package proxy

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy/plan"
)

// An Observer is told what a [Proxy] does; any function may be nil. Calls come in
// order, never two at once, from whatever goroutine called the Proxy, while no
// lock is held: a function may call any method but Run and Step. It should be
// quick, as a round may wait for it.
type Observer struct {
	// Queued is called when the first change since a round began comes in.
	Queued func()

	// RoundStarted is called before a round with why it runs.
	RoundStarted func(Reason)

	// RoundEnded is called after a round.
	RoundEnded func(Round)

	// Programmed is called for each trigger time of a Service's EndpointSlices
	// once the Backend has acknowledged the change, with the time that
	// passed since; never less than 0. A failed round loses none.
	Programmed func(svc types.NamespacedName, latency time.Duration)

	// Checked is called with what [backends.Checker] returned: what somebody else changed, which the next
	// round repairs, and what could not be compared.
	Checked func(changed []string, err error)

	// Swept is called with what [backends.Sweeper] returned: how many endpoints still drain. After an error the
	// next round is full.
	Swept func(left int, err error)

	// GateOpened is called when a gate opens for the first time.
	GateOpened func(name string)

	// ProblemFound and ProblemGone are called when something in the input begins
	// and ceases to be left out. Those of the plan itself come after the round.
	ProblemFound, ProblemGone func(plan.Problem)

	// ConflictFound and ConflictGone are called after the round in which a
	// claim for an address began and ceased to lose.
	ConflictFound, ConflictGone func(plan.Conflict)
}

// A Reason is why a round runs.
type Reason string

// The reasons. If there are several, the last of this list that applies is given.
const (
	ReasonStep     Reason = "step"     // Step was called with nothing to do
	ReasonChange   Reason = "change"   // something came in
	ReasonRetry    Reason = "retry"    // an earlier round, or a Sweep, failed
	ReasonPeriodic Reason = "periodic" // the full interval is over
	ReasonCheck    Reason = "check"    // the Backend's Check found a difference
	ReasonTrigger  Reason = "trigger"  // Trigger was called
	ReasonFirst    Reason = "first"    // nothing was written before
)

// A Round is what happened in one round.
type Round struct {
	Reason Reason

	// Services and Endpoints are how many Services changed by themselves and by
	// their endpoints, retries included.
	Services, Endpoints int

	// Results has one entry for each consumer that had something to do, the
	// Backend first.
	Results []Result

	// Held is how many ports are not in place since the Backend could not write them, in this round or an
	// earlier one.
	Held int

	Duration time.Duration
	Err      error // all errors, joined; nil if there was none
}

// A Result is what one consumer did in a round.
type Result struct {
	Name     string // BackendName or that of the Consumer
	Full     bool   // its Delta was Full
	Changes  int    // ports in its Delta
	Failed   int    // ports that a PartialError named
	Duration time.Duration
	Stats    backends.Stats // of a [backends.Reporter]
	Err      error
}

// BackendName names the Backend in a [Result] and in errors.
const BackendName = "backend"

// Backend returns the Backend's Result; ok is false if it had nothing to do.
func (r Round) Backend() (res Result, ok bool) {
	if len(r.Results) > 0 && r.Results[0].Name == BackendName {
		return r.Results[0], true
	}
	return Result{}, false
}

// events runs callbacks in the order they were pushed, one at a time and
// without a goroutine of its own: whoever finds nobody at it drains the queue.
type events struct {
	mu    sync.Mutex
	queue []func()
	busy  bool // somebody runs a callback
}

func (e *events) push(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.queue = append(e.queue, f)
}

// drain must be called without any lock of the Proxy. A callback that panics
// leaves the rest to the next call.
func (e *events) drain() {
	for f := e.next(); f != nil; f = e.next() {
		e.run(f)
	}
}

// next returns the callback to run now, nil if there is none or somebody runs
// one, who will come back for the rest.
func (e *events) next() func() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.busy || len(e.queue) == 0 {
		return nil
	}
	f := e.queue[0]
	e.queue[0] = nil
	e.queue = e.queue[1:]
	e.busy = true
	return f
}

func (e *events) run(f func()) {
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.busy = false
	}()
	f()
}

// notify queues a call of an optional function of the Observer.
func notify[T any](e *events, f func(T), arg T) {
	if f != nil {
		e.push(func() { f(arg) })
	}
}
