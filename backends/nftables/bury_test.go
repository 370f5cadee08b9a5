package nftables

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vipkit/vipkit/proxy/plan"
)

// deletions returns the chains that were deleted since the last clear.
func (r *recorder) deletions() (names []string) {
	for line := range strings.Lines(strings.Join(r.texts, "")) {
		if words := strings.Fields(line); words[0] == "delete" && words[1] == "chain" {
			names = append(names, words[4])
		}
	}
	return names
}

// flushes returns the chains that were flushed since the last clear.
func (r *recorder) flushes() (names []string) {
	for line := range strings.Lines(strings.Join(r.texts, "")) {
		if words := strings.Fields(line); words[0] == "flush" {
			names = append(names, words[4])
		}
	}
	return names
}

// unrelated is a change that makes a Sync happen.
func unrelated(n byte) plan.Input {
	return with(app{name: "other", vip: "10.96.0.99", eps: "10.180.1." + string(rune('0'+n)) + ":80"})
}

func TestChainsAreDeletedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := inNowhere(t, Options{})
		w := newWorld(t, nodeConfig())
		w.sync(b, with(app{name: "a", vip: "10.96.0.10", eps: e1 + " " + e2, change: affine}))
		r.clear()
		w.sync(b, with(app{name: "a", vip: "10.96.0.10", eps: e1, change: affine}))
		gone := r.flushes()
		gone = slices.DeleteFunc(gone, func(name string) bool { return strings.Contains(name, "pick") })
		if len(gone) != 2 || len(r.deletions()) != 0 {
			t.Errorf("E33 flushed %q and deleted %q with the change, want two flushed", gone, r.deletions())
		}
		time.Sleep(chainRest)
		r.clear()
		w.sync(b, unrelated(1))
		if got := r.deletions(); !slices.Equal(got, slices.Sorted(slices.Values(gone))) {
			t.Errorf("E33 a second later deleted %q, want %q", got, gone)
		}
	})
}

func TestBusyChains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, r := inNowhere(t, Options{})
		w := newWorld(t, nodeConfig())
		sticky := app{name: "a", vip: "10.96.0.10", eps: e1 + " " + e2, change: affine}
		w.sync(b, with(sticky))
		r.clear()
		w.sync(b, with(app{name: "a", gone: true}))
		gone := r.flushes()

		r.refuse = refuseIf("delete chain ip vipkit " + gone[0] + "\n")
		time.Sleep(chainRest)
		r.clear()
		if s := w.sync(b, unrelated(1)); s.Failed != 0 {
			t.Errorf("E35 #8 a busy chain failed %d Service ports", s.Failed)
		}
		if got := len(r.deletions()); got != len(gone)-1 {
			t.Errorf("#8 one busy chain of %d: deleted %d", len(gone), got)
		}

		r.refuse = nil
		w.sync(b, with(sticky)) // comes back before the last one is deleted
		time.Sleep(chainRest)
		r.clear()
		w.sync(b, unrelated(2))
		if got := r.deletions(); len(got) != 0 {
			t.Errorf("#8 deleted %q, which are in use again", got)
		}
	})
}
