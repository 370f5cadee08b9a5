package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A blind backend is as poor as a data plane can be: it writes one frontend after the
// other, cannot list what it has, and remembers nothing. Only Before tells it what to
// remove.
type blind struct {
	kernel map[string]string // frontend -> endpoints
	left   int               // writes until one fails, if not negative
}

func (b *blind) Sync(_ context.Context, d *plan.Delta) error {
	for _, c := range d.Changes {
		want := rowsOf(c.After)
		for _, old := range c.Before {
			for site := range rowsOf(old) {
				if _, stays := want[site]; !stays && !b.isOthers(d.New, site, c.Key) {
					if err := b.write(site, ""); err != nil {
						return err
					}
				}
			}
		}
		for _, site := range slices.Sorted(maps.Keys(want)) {
			if err := b.write(site, want[site]); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *blind) Cleanup(context.Context) error { return nil }

// isOthers reports whether another port has the frontend by now.
func (b *blind) isOthers(p *plan.Plan, site string, k plan.Key) bool {
	for port := range p.All() {
		if _, ok := rowsOf(port)[site]; ok && port.Key != k {
			return true
		}
	}
	return false
}

func (b *blind) write(site, endpoints string) error {
	if b.left == 0 {
		return errKernel
	}
	b.left--
	if endpoints == "" {
		delete(b.kernel, site)
	} else {
		b.kernel[site] = endpoints
	}
	return nil
}

func rowsOf(p *plan.Port) map[string]string {
	rows := map[string]string{}
	if p == nil {
		return rows
	}
	for _, f := range p.Frontends {
		rows[f.String()] = fmt.Sprint(p.Cluster)
	}
	return rows
}

func (r *rig) wantBlind(t *testing.T, b *blind) {
	t.Helper()
	want := map[string]string{}
	for port := range r.Plan().All() {
		maps.Copy(want, rowsOf(port))
	}
	if !maps.Equal(b.kernel, want) {
		t.Errorf("in place: %v\nwant: %v", b.kernel, want)
	}
}

// newBlindRig does not use the fake of the rig.
func newBlindRig(t *testing.T) (*rig, *blind) {
	t.Helper()
	b := &blind{kernel: map[string]string{}, left: -1}
	r := newRig(t, func(o *proxy.Options) { o.Backend = b }).open()
	return r, b
}

func TestBeforeIsEnough(t *testing.T) {
	t.Run("#5 a new frontend, a failure, the Service is deleted: the frontend is gone", func(t *testing.T) {
		r, b := newBlindRig(t)
		r.addWeb("web", "10.96.0.50", "10.200.0.1")
		r.addWeb("zoo", "10.96.0.60", "10.200.0.1")
		b.left = 1 // web is written, zoo is not
		if err := r.Step(t.Context()); !errors.Is(err, errKernel) || len(b.kernel) != 1 {
			t.Fatalf("Step = %v with %v in place, want a failure halfway", err, b.kernel)
		}
		r.DeleteService(name("web"))
		b.left = -1
		r.step(t)
		r.wantBlind(t, b)
	})
	t.Run("two attempts at two addresses, then none", func(t *testing.T) {
		r, b := newBlindRig(t)
		r.addWeb("zoo", "10.96.0.60", "10.200.0.1")
		r.step(t)
		for i, ip := range []string{"10.96.0.50", "10.96.0.51"} {
			r.addWeb("web", ip, "10.200.0.1")
			r.SetEndpointSlice(slice("zoo", "10.200.0.2"))
			b.left = i + 1 // the second time, the first address is removed too
			if err := r.Step(t.Context()); err == nil || b.kernel[ip+":80"] == "" {
				t.Fatalf("Step = %v with %v in place, want a failure halfway", err, b.kernel)
			}
		}
		r.DeleteService(name("web"))
		b.left = -1
		r.step(t)
		r.wantBlind(t, b)
	})
}

// Whatever is tried and wherever it fails, one good round later the data plane is right.
func TestFailAtAnyStep(t *testing.T) {
	for seed := range uint64(200) {
		dice := rand.New(rand.NewPCG(seed, 3))
		r, b := newBlindRig(t)
		for range 12 {
			for range 1 + dice.IntN(3) {
				n := fmt.Sprint("s", dice.IntN(4))
				if dice.IntN(3) == 0 {
					r.DeleteService(name(n))
					continue
				}
				r.addWeb(n, fmt.Sprintf("10.96.0.%d", dice.IntN(6)), fmt.Sprintf("10.200.0.%d", 1+dice.IntN(3)))
			}
			b.left = dice.IntN(4) - 1 // -1 does not fail
			_ = r.Step(t.Context())
		}
		b.left = -1
		r.step(t)
		r.wantBlind(t, b)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
