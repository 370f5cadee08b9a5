package backendtest

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
)

// An Imager describes what is in its data plane, for comparison. After many changes, after failures and after restarts it
// must be what an empty data plane is given.
type Imager interface {
	// Image returns a line for each object, in any order. It leaves out what has no influence on new connections and
	// depends on the past, such as handles, counters, and endpoints that are only waiting for their connections to end.
	Image(ctx context.Context) (string, error)
}

// images are those of an [Imager].
type images struct{ empty, last []string }

// restart lets a new Backend take over, and expects what the last step did.
func (p *player) restart(t *testing.T, last []line) {
	t.Helper()
	p.images.last = p.image(t)
	p.start(t)
	p.unchanged(t, "before the first Sync")
	p.world.cursor = plan.Cursor{}
	again := afterRestart(last)
	stop := p.traffic(t, last, again)
	defer stop() // also if Sync fails: it reports to t
	p.inNode(t, func() error { return p.world.sync(t.Context(), p.backend) })
	stop()
	p.compareImage(t, p.images.last, "after a restart")
	p.check(t, again)
}

// afterRestart is what is expected of a Backend that took over: the same, also of
// clients that have an endpoint already. Of several lines about one flow the last counts.
func afterRestart(last []line) []line {
	var out []line
	for i, l := range last {
		later := func(o line) bool { return o.flow() == l.flow() && o.onlyIf == l.onlyIf }
		if l.wait != 0 || l.conn() == "" && slices.ContainsFunc(last[i+1:], later) {
			continue
		}
		if l.sticks != spread {
			l.sticks = same
		}
		l.open = ""
		out = append(out, l)
	}
	return out
}

// cleanup removes everything, twice, and tries whether it is gone.
func (p *player) cleanup(t *testing.T, last []line) {
	t.Helper()
	p.checkReadError(t)
	for range 2 {
		p.inNode(t, func() error { return p.backend.Cleanup(t.Context()) })
		p.unchanged(t, "after Cleanup")
		p.compareImage(t, p.images.empty, "after Cleanup")
	}
	p.world.cursor = plan.Cursor{}
	p.checkGone(t, last, plan.New(plan.Config{}), "after Cleanup")
}

// changed puts everything back, and expects that this is what many changes had led to. Then it lets a Backend write what was before the
// last step, and another one take over from it.
func (p *player) changed(t *testing.T, last []line) {
	t.Helper()
	if p.cfg.NewProxy != nil {
		p.start(t) // Cleanup has stopped it
	}
	p.quick = true // all of it was tried before
	p.inNode(t, func() error { return p.world.sync(t.Context(), p.backend) })
	p.compareImage(t, p.images.last, "in an empty data plane")
	if p.cfg.NewProxy == nil && p.previous.Len() > 0 {
		p.inNode(t, func() error { return p.backend.Cleanup(t.Context()) })
		p.inNode(t, func() error { return p.backend.Sync(t.Context(), plan.Full(p.previous)) })
		p.takeOver(t, "after a restart with changes")
		p.compareImage(t, p.images.last, "after a restart with changes")
	}
	p.check(t, afterCleanup(last))
}

// emptied lets all Services end while no Backend runs, and expects that a new one removes what it finds.
func (p *player) emptied(t *testing.T, last []line) {
	t.Helper()
	if err := p.world.empty(); err != nil {
		t.Fatal(err)
	}
	p.takeOver(t, "after all Services ended")
	p.checkGone(t, last, p.world.plan, "after all Services ended")
	image := p.image(t)
	if image == nil {
		return
	}
	p.inNode(t, func() error { return p.backend.Cleanup(t.Context()) })
	p.takeOver(t, "without Services")
	p.compareImage(t, image, "in an empty data plane, without Services")
}

// takeOver lets a new Backend write all of the plan.
func (p *player) takeOver(t *testing.T, when string) {
	t.Helper()
	p.start(t)
	p.world.cursor = plan.Cursor{}
	p.inNode(t, func() error { return p.world.sync(t.Context(), p.backend) })
	p.unchanged(t, when)
}

// afterCleanup is what is expected after everything was removed and put back: clients and open connections are forgotten.
func afterCleanup(last []line) []line {
	lines := slices.DeleteFunc(afterRestart(last), func(l line) bool { return l.conn() != "" })
	for i := range lines {
		lines[i].sticks = min(lines[i].sticks, sticky)
	}
	return lines
}

// reset makes the data plane empty, and the desired state too.
func (p *player) reset(t *testing.T) {
	t.Helper()
	p.inNode(t, func() error { return p.backend.Cleanup(t.Context()) })
	var err error
	if p.world, err = newWorld(p.book); err != nil {
		t.Fatal(err)
	}
}

// checkGone expects what a plan without Services says.
func (p *player) checkGone(t *testing.T, last []line, without *plan.Plan, when string) {
	t.Helper()
	var wg sync.WaitGroup
	defer wg.Wait()
	p.each(last, func(l line, v variant) {
		if l.conn() != "" || l.from == "" || l.stays() || !p.counts(l, l.packets(p.book, v).protocol) {
			return
		}
		packet := l.packets(p.book, v).packet(0)
		if tracer, ok := p.backend.(Tracer); ok {
			if got, want := tracer.Trace(packet).Verdict, without.Trace(packet).Verdict; got != want {
				t.Errorf("%s: %s: %s Trace of %s is %s, want %s", v, l.text, when, describe(packet), verdictName(got), verdictName(want))
			}
		}
		if l.verdict == plan.Forward && l.from == "client" && p.sent(l, v) {
			wg.Go(func() { p.sendGone(t, l, v, when) })
		}
	})
}

// image returns the sorted lines of the image, nil if the Backend has none.
func (p *player) image(t *testing.T) []string {
	t.Helper()
	i, ok := p.backend.(Imager)
	if !ok {
		return nil
	}
	var text string
	p.inNode(t, func() (err error) {
		text, err = i.Image(t.Context())
		return err
	})
	return slices.Sorted(strings.Lines(strings.TrimRight(text, "\n") + "\n"))
}

// compareImage expects an image.
func (p *player) compareImage(t *testing.T, want []string, when string) {
	t.Helper()
	got := p.image(t)
	var diff strings.Builder
	for _, l := range without(want, got) {
		diff.WriteString("- " + l)
	}
	for _, l := range without(got, want) {
		diff.WriteString("+ " + l)
	}
	if diff.Len() > 0 {
		p.show(t)
		t.Errorf("%s the data plane is not what it was (-was +is):\n%s", when, diff.String())
	}
}

// without returns the lines of a sorted list that another one does not have.
func without(lines, others []string) []string {
	var out []string
	for _, l := range lines {
		if _, ok := slices.BinarySearch(others, l); !ok {
			out = append(out, l)
		}
	}
	return out
}
