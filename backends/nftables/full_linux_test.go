package nftables

import (
	"math/rand/v2"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

// TestFullReadsOnlyAfterOthers compares full syncs, as at the full sync interval, with and
// without a commit of somebody else before them.
func TestFullReadsOnlyAfterOthers(t *testing.T) {
	full := func(w *world, b *Backend) backends.Stats {
		w.tb.Helper()
		w.restart(b)
		return b.LastStats()
	}
	start := func(t *testing.T) (*world, *Backend) {
		t.Helper()
		inNetNS(t)
		w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
		w.sync(b, many(1_000))
		return w, b
	}
	t.Run("#66 nobody else: nothing read, nothing written", func(t *testing.T) {
		w, b := start(t)
		r := &reader{kernel: b.kernel}
		b.kernel = r
		if s := full(w, b); s.Full || s.Written > 0 || r.tables+r.dumps+r.lookups > 0 {
			t.Errorf("stats %+v, read %+v, want nothing read and nothing written", s, *r)
		}
	})
	t.Run("a commit elsewhere: read once, nothing written", func(t *testing.T) {
		w, b := start(t)
		nft(t, "add table ip other")
		if s := full(w, b); !s.Full || s.Written > 0 {
			t.Errorf("stats %+v, want everything read and nothing written", s)
		}
		if s := full(w, b); s.Full {
			t.Errorf("then stats %+v, want nothing read", s)
		}
	})
	t.Run("a restart with differences: read once more", func(t *testing.T) {
		w, _ := start(t)
		w.update(with(app{name: "new", vip: "10.99.0.1", eps: two}))
		b := newBackend(t, Options{})
		for step, want := range []backends.Stats{{Full: true, Written: 1}, {Full: true}, {}} {
			if s := full(w, b); s.Full != want.Full || (s.Written > 0) != (want.Written > 0) {
				t.Errorf("step %d: stats %+v, want read %v, written %v", step, s, want.Full, want.Written > 0)
			}
		}
	})
	t.Run("#65 an element that samples may miss", func(t *testing.T) {
		w, b := start(t)
		b.checked = 5_000
		nft(t, "delete element ip vipkit endpoints-tcp { 10.96.0.77 . 80 . 3 }")
		for range 100 { // until a sample has missed it
			if changed, _ := b.Check(t.Context()); len(changed) == 0 {
				break
			}
		}
		if s := full(w, b); s.Written != 1 {
			t.Errorf("stats %+v, want the element back", s)
		}
		w.wantSettled(Options{})
	})
}

// TestFullOnWhatIsKnown gives a Backend full Deltas of plans that it did not see grow, as when
// it serves a second caller, and compares with a fresh one each time.
func TestFullOnWhatIsKnown(t *testing.T) {
	inNetNS(t)
	r := rand.New(rand.NewPCG(1, 2))
	b := newBackend(t, Options{})
	w := newWorld(t, nodeConfig())
	w.sync(b, with(everything()...))
	for step := range 20 {
		for _, a := range everything() {
			switch r.IntN(4) {
			case 0:
				a.gone = true
				w.update(with(a))
			case 1:
				w.update(with(a))
			case 2:
				w.update(plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{nameOf(a.name): tenOf(step, 1+r.IntN(9), "n2")}})
			}
		}
		if r.IntN(3) == 0 {
			w.update(plan.Input{Config: twoAddresses(func(c *plan.Config) { c.NodePortAddresses.All = r.IntN(2) == 0 })})
		}
		w.restart(b)
		if s := b.LastStats(); s.Full {
			t.Fatalf("step %d: stats %+v, want nothing read", step, s)
		}
		w.wantFresh(t)
	}
}
