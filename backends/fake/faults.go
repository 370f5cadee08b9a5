package fake

import (
	"context"

	"github.com/vipkit/vipkit/proxy/plan"
)

// faults are what was ordered to go wrong.
type faults struct {
	hook         func(context.Context, *plan.Delta) error
	calls        map[int]error // by number of the call
	middle       map[int]stop
	ports        map[plan.Key]error
	check, probe error
}

// A stop ends a call after some ports were written.
type stop struct {
	ports int
	err   error
}

func (f *faults) take(call int) error {
	err := f.calls[call]
	delete(f.calls, call)
	return err
}

func (f *faults) midway(call, done int) error {
	if s, ok := f.middle[call]; ok && done >= s.ports {
		delete(f.middle, call)
		return s.err
	}
	return nil
}

// OnSync sets a function that every Sync calls first, for instance to wait or to
// look at the Delta; an error ends the call with nothing written. nil removes it.
func (b *Backend) OnSync(f func(ctx context.Context, d *plan.Delta) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults.hook = f
}

// FailCall makes the n-th Sync from now fail with err, having written nothing; 1
// is the next one.
func (b *Backend) FailCall(n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.faults.calls == nil {
		b.faults.calls = make(map[int]error)
	}
	b.faults.calls[b.number+n] = err
}

// FailMidway makes the next Sync fail with err when it has written so many ports
// and wants to write another, as a data plane without transactions does.
func (b *Backend) FailMidway(ports int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.faults.middle == nil {
		b.faults.middle = make(map[int]stop)
	}
	b.faults.middle[b.number+1] = stop{ports, err}
}

// FailPort makes every Sync that would change the port leave it as it is and name it
// in a [plan.PartialError], until it is called again with nil.
func (b *Backend) FailPort(k plan.Key, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		delete(b.faults.ports, k)
		return
	}
	if b.faults.ports == nil {
		b.faults.ports = make(map[plan.Key]error)
	}
	b.faults.ports[k] = err
}

// FailCheck makes Check return err besides what it finds; nil ends it.
func (b *Backend) FailCheck(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults.check = err
}

// FailProbe makes Probe return err; nil ends it.
func (b *Backend) FailProbe(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults.probe = err
}

// Wipe removes everything behind the Backend's back, as somebody who flushes all
// rules would: the Backend goes on believing that it is there, until Check tells.
func (b *Backend) Wipe() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.table, b.view = nil, nil
}
