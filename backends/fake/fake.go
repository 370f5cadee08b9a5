package fake

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/engine"
	"github.com/vipkit/vipkit/proxy/plan"
)

// maxCalls is how many calls a Backend remembers: enough for a test, and the
// plans of a long benchmark do not stay in memory.
const maxCalls = 1000

// A Backend keeps in memory what a kernel would have in place. The zero value is
// ready for use. Unlike the methods of other backends, its own may run at any time
// and are safe for concurrent use.
type Backend struct {
	mu     sync.Mutex
	engine *engine.Engine[plan.Key, *plan.Port] // nil before the first use

	// base is the last plan that was written, at least in part; table the ports in
	// place, which differ from it where a port failed or a change was lost.
	base  *plan.Plan
	table map[plan.Key]*plan.Port
	view  *plan.Plan // what Plan returned, nil if the table changed since

	unknown bool // a call failed midway
	faults  faults
	calls   []Call
	number  int
	broken  []string
}

// A Call is one call of Sync.
type Call struct {
	Delta *plan.Delta
	Err   error
}

// Sync writes d into the table, unless a fault was ordered. It treats d as
// Full if the table is not what d.Base left. The context is used by OnSync, and ends a call before it writes.
func (b *Backend) Sync(ctx context.Context, d *plan.Delta) error {
	err := b.hook(ctx, d)
	if err == nil {
		err = b.sync(ctx, d)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.record(d, err)
	return err
}

// hook counts the call and runs the function given to OnSync, without the lock.
func (b *Backend) hook(ctx context.Context, d *plan.Delta) error {
	b.mu.Lock()
	b.number++
	f := b.faults.hook
	b.mu.Unlock()
	if f == nil {
		return nil
	}
	return f(ctx, d)
}

func (b *Backend) record(d *plan.Delta, err error) {
	if len(b.calls) == maxCalls {
		b.calls = slices.Delete(b.calls, 0, 1)
	}
	b.calls = append(b.calls, Call{Delta: d, Err: err})
}

func (b *Backend) sync(ctx context.Context, d *plan.Delta) error {
	e, err := b.begin(d)
	if err != nil {
		return fmt.Errorf("fake: sync: %w", err)
	}
	err = e.Sync(ctx, d)
	var partial *plan.PartialError
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil || errors.As(err, &partial) {
		b.base, b.unknown, b.view = d.New, false, nil
	}
	return err
}

// begin returns the engine, unless the call is to fail before it writes anything.
func (b *Backend) begin(d *plan.Delta) (*engine.Engine[plan.Key, *plan.Port], error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.faults.take(b.number); err != nil {
		return nil, err
	}
	b.compare(d, d.Full || b.unknown || d.Base != b.base)
	b.unknown = true // until all is written
	return b.open(), nil
}

func (b *Backend) open() *engine.Engine[plan.Key, *plan.Port] {
	if b.engine == nil {
		b.engine = engine.New(dialect{b}, engine.Options{Name: "fake"})
	}
	return b.engine
}

// opened returns the engine.
func (b *Backend) opened() *engine.Engine[plan.Key, *plan.Port] {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open()
}

// compare notes where d is not what the contract promises. A new caller, which knows
// no Base of ours, may say what it likes.
func (b *Backend) compare(d *plan.Delta, full bool) {
	if b.unknown && !d.Full {
		b.broken = append(b.broken, "the Delta after an error is not Full")
	}
	if full {
		return
	}
	for _, c := range d.Changes {
		have := b.table[c.Key]
		equal := func(p *plan.Port) bool { return p == have || reflect.DeepEqual(p, have) }
		if have != nil && !slices.ContainsFunc(c.Before, equal) {
			b.broken = append(b.broken, fmt.Sprintf("%s %s %s: the version in place is not in Before",
				c.Key, c.Key.Protocol, c.Key.Family))
		}
	}
}

// Restart returns a Backend on the data plane of b, as a new process finds it: it knows nothing, and no faults are
// ordered. b must not be used any more.
func (b *Backend) Restart() *Backend {
	b.mu.Lock()
	defer b.mu.Unlock()
	return &Backend{table: b.table}
}

// Cleanup removes everything.
func (b *Backend) Cleanup(ctx context.Context) error {
	err := b.opened().Cleanup(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.base, b.view, b.unknown = nil, nil, err != nil
	return err
}

// Check names what Wipe removed, until a Sync has repaired it.
func (b *Backend) Check(ctx context.Context) (changed []string, err error) {
	changed, err = b.opened().Check(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.faults.check != nil {
		err = fmt.Errorf("fake: check: %w", b.faults.check)
	}
	return changed, err
}

// LastStats returns what the last Sync did.
func (b *Backend) LastStats() backends.Stats { return b.opened().LastStats() }

// Probe returns what FailProbe was given.
func (b *Backend) Probe(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.faults.probe
}

// Plan returns what is in place: the last plan that was written, with the ports
// as they are in the table, which is less than that plan if something failed or was
// lost. It has no Services before the first Sync. It costs a pass over all ports
// if anything was written since the last call.
func (b *Backend) Plan() *plan.Plan {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.view == nil {
		b.view = b.inPlace()
	}
	return b.view
}

func (b *Backend) inPlace() *plan.Plan {
	base := b.base
	if base == nil {
		base = plan.New(plan.Config{})
	}
	differs := make(map[plan.Key]*plan.Port)
	for port := range base.All() {
		if have := b.table[port.Key]; have != port {
			differs[port.Key] = have
		}
	}
	for k, have := range b.table {
		if base.Port(k) == nil {
			differs[k] = have
		}
	}
	if len(differs) == 0 {
		return base
	}
	return base.Hold(differs)
}

// Trace tells what happens to a packet with what is in place.
func (b *Backend) Trace(packet plan.Packet) plan.Trace { return b.Plan().Trace(packet) }

// Calls returns the last calls of Sync, oldest first, at most 1000.
func (b *Backend) Calls() []Call {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.calls)
}

// Violations lists, oldest first, where a Delta after an error was not Full, or one
// that was not Full did not name in Before what was in place. Whoever makes Deltas must
// keep it empty.
func (b *Backend) Violations() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.broken)
}
