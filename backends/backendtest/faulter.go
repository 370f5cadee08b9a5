package backendtest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A Faulter is a Backend whose data plane fails as it is told to, for the scenarios with failures: without it they are not
// played. Usually it is a Backend with something of your test package between it and its data plane. The methods are not called during
// a call of Sync.
type Faulter interface {
	backends.Backend

	// FailPort makes the data plane refuse everything that is new in the version of the port that is written next, as it would if
	// it could not do that. A nil error ends it.
	FailPort(k plan.Key, err error)

	// FailWrite makes the n-th write from now on fail with err, which may be wrapped, 1 being the next, for a reason that has nothing to do
	// with what is written; what a write is depends on the data plane. All others succeed. A nil error ends it.
	FailWrite(n int, err error)

	// FailRead makes every reading of the data plane fail. A nil error ends it.
	FailRead(err error)
}

var (
	errRefuses = errors.New("the data plane refuses it")
	errFails   = errors.New("the data plane fails")
)

// An alarm is an error that knows whether anybody looked at it: a Backend may have tried again, with success.
type alarm struct{ seen atomic.Bool }

func (a *alarm) Error() string {
	a.seen.Store(true)
	return "the data plane fails"
}

func (a *alarm) Is(error) bool {
	a.seen.Store(true)
	return false
}

// faultFiles returns the scenarios with failures.
func faultFiles() fs.FS {
	files, err := fs.Sub(embedded, "testdata/faults")
	if err != nil {
		return embedded // cannot happen: the name is valid
	}
	return files
}

// failPorts makes the writes of the ports of some Services fail, given as NAMESPACE/NAME, and those of all others succeed.
func (p *player) failPorts(services []string) {
	f, ok := p.backend.(Faulter)
	if !ok {
		return
	}
	keys := map[plan.Key]error{}
	for port := range p.world.plan.All() {
		keys[port.Key] = nil
		for _, v := range p.scenario.variants {
			for _, s := range services {
				if ns, name, _ := strings.Cut(s, "/"); port.Namespace == v.namespace(ns) && port.Name == name {
					keys[port.Key] = errRefuses
				}
			}
		}
	}
	p.failing = map[plan.Key]bool{}
	for k, err := range keys {
		f.FailPort(k, err)
		if err != nil {
			p.failing[k] = true
		}
	}
}

// compareRefused expects that a Sync named exactly the ports that were refused, or those that are held with them too, and that
// the next Delta has only what was named.
func (p *player) compareRefused(err error) error {
	var partial *plan.PartialError
	switch {
	case len(p.failing) == 0 || err == nil:
		if err == nil && len(p.failing) > 0 {
			return errors.New("the data plane refuses some ports and Sync returns nil")
		}
		return err
	case !errors.As(err, &partial):
		return fmt.Errorf("the data plane refuses some ports, and Sync fails: %w", err)
	}
	want, got := sortedKeys(p.failing), slices.SortedFunc(maps.Keys(partial.Ports), plan.Key.Compare)
	named := func(k plan.Key) bool { return partial.Ports[k] != nil }
	together := slices.Contains(p.cfg.Limits, HeldTogether) && !slices.ContainsFunc(want, func(k plan.Key) bool { return !named(k) })
	if !slices.Equal(got, want) && !together {
		return fmt.Errorf("the PartialError names %v, want %v: %w", got, want, err)
	}
	for _, c := range p.world.next().Changes {
		if !named(c.Key) {
			return fmt.Errorf("the next Delta has %s, which was written", c.Key)
		}
	}
	return nil
}

func sortedKeys(m map[plan.Key]bool) []plan.Key {
	return slices.SortedFunc(maps.Keys(m), plan.Key.Compare)
}

// runFaults plays what only a Faulter can.
func runFaults(t *testing.T, cfg Config) {
	t.Helper()
	scenarios, err := load(faultFiles())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios {
		t.Run("faults/"+s.name, func(t *testing.T) {
			p := newPlayer(t, cfg, s)
			if strings.HasPrefix(s.name, "every-") {
				p.quick = true
				p.playEveryWrite(t)
				return
			}
			p.play(t)
		})
	}
}

// mostWrites bounds the writes of one Sync.
const mostWrites = 200

// playEveryWrite goes from the first step of a scenario to the second, and lets each write fail in turn. One good Sync
// later, by the same Backend or by a new one, everything must be as after a Sync that did not fail.
func (p *player) playEveryWrite(t *testing.T) {
	t.Helper()
	before, after := p.scenario.steps[0], p.scenario.steps[1]
	p.apply(t, before)
	p.apply(t, after)
	p.inNode(t, func() error { return p.world.sync(t.Context(), p.backend) })
	p.images.last = p.image(t)
	for n := 1; ; n++ {
		if n > mostWrites {
			t.Fatalf("more than %d writes for one Sync", mostWrites)
		}
		again := false
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%d restarted=%t", n, restarted), func(t *testing.T) {
				again = p.failOnce(t, n, restarted)
			})
		}
		if !again || t.Failed() {
			return
		}
	}
}

// failOnce reports whether there was a write n.
func (p *player) failOnce(t *testing.T, n int, restarted bool) (tried bool) {
	t.Helper()
	before, after := p.scenario.steps[0], p.scenario.steps[1]
	p.reset(t)
	p.apply(t, before)
	p.inNode(t, func() error { return p.world.sync(t.Context(), p.backend) })
	p.apply(t, after)
	f := p.backend.(Faulter) //nolint:forcetypeassert // or this would not be played
	failure := &alarm{}
	p.inNode(t, func() error {
		f.FailWrite(n, failure)
		err := p.world.sync(t.Context(), p.backend)
		f.FailWrite(0, nil)
		if tried = failure.seen.Load() || errors.Is(err, failure); tried {
			return nil // whatever came of it
		}
		return err
	})
	const when = "after a Sync that failed and one that did not"
	if restarted {
		p.takeOver(t, when)
	} else {
		p.inNode(t, func() error { return p.world.sync(t.Context(), p.backend) })
		p.unchanged(t, when)
	}
	p.compareImage(t, p.images.last, when)
	p.check(t, after.expect)
	return tried
}

// checkReadError expects that a Check which cannot read says so, and nothing else, and that a Sync which must read fails as a whole.
func (p *player) checkReadError(t *testing.T) {
	t.Helper()
	f, ok := p.backend.(Faulter)
	if !ok {
		return
	}
	f.FailRead(errFails)
	defer f.FailRead(nil)
	p.inNode(t, func() error {
		if checker, ok := p.backend.(backends.Checker); ok {
			if changed, err := checker.Check(t.Context()); len(changed) > 0 || !errors.Is(err, errFails) {
				t.Errorf("Check with a read error = %q, %v, want only the error", changed, err)
			}
		}
		var partial *plan.PartialError
		if err := p.backend.Sync(t.Context(), plan.Full(p.world.plan)); !errors.Is(err, errFails) || errors.As(err, &partial) {
			t.Errorf("a Full Sync that cannot read = %v, want that error, and not of some ports", err)
		}
		return nil
	})
}
