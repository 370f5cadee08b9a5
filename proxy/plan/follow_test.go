package plan_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A plane is a model of a data plane that does only what its Deltas say. It fails
// as told by a random number, after it did some of the work.
type plane struct {
	plan.Cursor

	has  map[plan.Key]*plan.Port
	rand *rand.Rand
}

// sync brings the plane to p and returns whether it acknowledged, at least in part.
// Before that it looks whether the Delta tells all.
func (pl *plane) sync(t *testing.T, p *plan.Plan, mayFail bool) bool {
	t.Helper()
	d := pl.Delta(p)
	if d == nil {
		pl.checkEqual(t, p)
		return true
	}
	pl.checkDelta(t, d)
	outcome := 0
	if mayFail {
		outcome = pl.rand.IntN(4)
	}
	bad := map[plan.Key]error{}
	for _, c := range d.Changes {
		switch {
		case outcome == 1 && pl.rand.IntN(2) == 0: // fails as a whole, half done
		case outcome == 2 && pl.rand.IntN(2) == 0: // is named; done or not
			bad[c.Key] = errors.New("no")
			if pl.rand.IntN(2) == 0 {
				pl.put(c)
			}
		default:
			pl.put(c)
		}
	}
	switch outcome {
	case 1:
		return pl.Done(d, errors.New("boom"))
	case 2:
		return pl.Done(d, &plan.PartialError{Ports: bad})
	default:
		pl.checkEqual(t, p)
		return pl.Done(d, nil)
	}
}

func (pl *plane) put(c plan.Change) {
	if c.After == nil {
		delete(pl.has, c.Key)
	} else {
		pl.has[c.Key] = c.After
	}
}

// checkDelta looks whether what is in place is among what the Delta says may be,
// and whether a port that it does not name is in place as it shall be.
func (pl *plane) checkDelta(t *testing.T, d *plan.Delta) {
	t.Helper()
	named := map[plan.Key]plan.Change{}
	for _, c := range d.Changes {
		named[c.Key] = c
		if !plan.EqualPorts(c.After, d.New.Port(c.Key)) {
			t.Fatalf("%v: After is not the port of the plan", c.Key)
		}
		if slices.Contains(c.Before, nil) {
			t.Fatalf("%v: Before has nil", c.Key)
		}
	}
	for k, has := range pl.has {
		c, ok := named[k]
		switch {
		case ok && !slices.ContainsFunc(c.Before, func(b *plan.Port) bool { return plan.EqualPorts(b, has) }):
			t.Fatalf("%v: what is in place is not in Before:\n%s", k, has)
		case !ok && !plan.EqualPorts(has, d.New.Port(k)):
			t.Fatalf("%v is not named, and in place as\n%sshall be\n%s", k, has, d.New)
		}
	}
	for p := range d.New.All() {
		if _, ok := named[p.Key]; !ok && !plan.EqualPorts(pl.has[p.Key], p) {
			t.Fatalf("%v is not named, and not in place", p.Key)
		}
	}
}

func (pl *plane) checkEqual(t *testing.T, p *plan.Plan) {
	t.Helper()
	n := 0
	for port := range p.All() {
		n++
		if !plan.EqualPorts(pl.has[port.Key], port) {
			t.Fatalf("%v is in place as\n%sshall be\n%s", port.Key, pl.has[port.Key], port)
		}
	}
	if n != len(pl.has) {
		t.Fatalf("%d ports in place, want %d", len(pl.has), n)
	}
}

// FuzzDelta lets two data planes follow a Plan by Deltas alone, through failures of
// the whole and of single ports. The second is shown what the first could not do
// as it was before, and waits while the first failed as a whole.
func FuzzDelta(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		d := &dice{data}
		r := rand.New(rand.NewPCG(uint64(d.roll(256)), uint64(d.roll(256))))
		first, second := &plane{has: map[plan.Key]*plan.Port{}, rand: r}, &plane{has: map[plan.Key]*plan.Port{}, rand: r}
		p := plan.New(config())
		round := func(mayFail bool) {
			if first.sync(t, p, mayFail) {
				held := p.Hold(first.Failed())
				checkOneOwner(t, held)
				second.sync(t, held, mayFail)
			}
		}
		for !d.done() {
			for range 1 + r.IntN(3) {
				var diff plan.Diff
				p, diff = p.Update(d.event())
				first.Note(diff)
				second.Note(diff)
			}
			if r.IntN(10) == 0 {
				first.Reset()
			}
			round(true)
		}
		round(false)
		first.checkEqual(t, p)
		second.checkEqual(t, p)
	})
}
