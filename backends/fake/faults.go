package fake

import (
	"context"

	"github.com/vipkit/vipkit/proxy/plan"
)

// faults are what was ordered to go wrong.
type faults struct {
	hook         func(context.Context, *plan.Delta) error
	calls        map[int]error // by number of the call
	ports        map[plan.Key]error
	check, probe error
	read         error

	writes    int // until the one that fails, 0 if none does
	failWrite error
}

func (f *faults) take(call int) error {
	err := f.calls[call]
	delete(f.calls, call)
	return err
}

// write counts the writes up to the one that is to fail.
func (f *faults) write() error {
	if f.writes == 0 {
		return nil
	}
	if f.writes--; f.writes > 0 {
		return nil
	}
	return f.failWrite
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

// FailWrite makes the n-th write of a port from now fail with err, as a data plane without transactions does:
// those before it are done. 1 is the next one; a nil err ends it.
func (b *Backend) FailWrite(n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults.writes, b.faults.failWrite = n, err
	if err == nil {
		b.faults.writes = 0
	}
}

// FailRead makes every Check, and every Sync and Cleanup that has to read what is in place, fail with err; nil ends it.
func (b *Backend) FailRead(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.faults.read = err
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
