package healthcheck

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"
)

// The values that stand for zero in [Options] and [ServicesOptions].
const (
	// DefaultTimeout is twice the 30 s that kube-proxy lets pass between full syncs.
	DefaultTimeout = time.Minute

	// DefaultRetryInterval is kube-proxy's for its /healthz port.
	DefaultRetryInterval = 5 * time.Second

	// DefaultMaxSockets is more than three for each port of the default NodePort range, 30000 to 32767.
	DefaultMaxSockets = 10_000
)

// Options configure a [Health]. The zero value is ready to use.
type Options struct {
	// Timeout is how long a change may wait; a loop of which one waits for that
	// long is late. So one Service port that the backend cannot write makes the loop late, unless the backend refuses it
	// for what it is; see proxy.Listener. Zero means DefaultTimeout.
	Timeout time.Duration

	// NodeEligible says whether the node should get traffic of load balancers. It must be
	// safe for concurrent use and quick. If nil, the node is eligible.
	NodeEligible func() bool

	// OnAnswer is called after each answer on /healthz and /livez, for counters by path and
	// code. It must be safe for concurrent use. It may be nil.
	OnAnswer func(path string, code int)
}

// A Health is the state of the loops of one proxy. It is safe for concurrent use.
type Health struct {
	opts Options

	mu    sync.Mutex
	loops map[string]*Loop
}

// New returns a Health without loops, which is healthy.
func New(opts Options) *Health {
	opts.Timeout = cmp.Or(opts.Timeout, DefaultTimeout)
	return &Health{opts: opts, loops: map[string]*Loop{}}
}

// Loop returns the loop of that name, the same one at every call.
func (h *Health) Loop(name string) *Loop {
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.loops[name]
	if l == nil {
		l = &Loop{health: h}
		h.loops[name] = l
	}
	return l
}

// A Loop is one loop of a proxy, made by [Health.Loop]. It is safe for concurrent use.
type Loop struct {
	health *Health

	// Guarded by the mutex of health.
	updated time.Time // zero until the first call of Updated
	pending time.Time // since when the oldest change waits, zero if none does
}

// Queued says that a change begins to wait, or still waits. The oldest one counts.
func (l *Loop) Queued() {
	l.health.mu.Lock()
	defer l.health.mu.Unlock()
	if l.pending.IsZero() {
		l.pending = time.Now()
	}
}

// Updated says that nothing waits any more. The loop is judged from the first call on,
// which should be when it starts.
func (l *Loop) Updated() {
	l.health.mu.Lock()
	defer l.health.mu.Unlock()
	l.updated, l.pending = time.Now(), time.Time{}
}

// A Report is the state of a [Health] at one time.
type Report struct {
	Time    time.Time // when the report was made
	Healthy bool      // no loop is late
	Updated time.Time // the newest of all loops, zero if there is none

	// Loops are those that were updated at least once, sorted by name.
	Loops []LoopReport
}

// A LoopReport is the state of one [Loop].
type LoopReport struct {
	Name    string
	Updated time.Time // when Updated was called last
	Healthy bool
}

// Report returns the state as of now.
func (h *Health) Report() Report {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := Report{Time: time.Now(), Healthy: true}
	for name, l := range h.loops {
		if l.updated.IsZero() {
			continue
		}
		late := !l.pending.IsZero() && r.Time.Sub(l.pending) >= h.opts.Timeout
		r.Loops = append(r.Loops, LoopReport{Name: name, Updated: l.updated, Healthy: !late})
		r.Healthy = r.Healthy && !late
		if l.updated.After(r.Updated) {
			r.Updated = l.updated
		}
	}
	slices.SortFunc(r.Loops, func(a, b LoopReport) int { return strings.Compare(a.Name, b.Name) })
	return r
}

func (h *Health) nodeEligible() bool { return h.opts.NodeEligible == nil || h.opts.NodeEligible() }
