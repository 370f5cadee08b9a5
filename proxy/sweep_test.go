package proxy_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A sweeper is a Backend on which something always drains.
type sweeper struct {
	backends.Backend

	start time.Time

	mu     sync.Mutex
	busy   bool            // a Sync is under way
	at     []time.Duration // when Sweep was called
	inSync int             // calls of Sweep during a Sync
	err    error
	told   []error // what Swept was called with
}

func (s *sweeper) locked(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *sweeper) Sync(ctx context.Context, d *plan.Delta) error {
	s.locked(func() { s.busy = true })
	defer s.locked(func() { s.busy = false })
	return s.Backend.Sync(ctx, d)
}

// LastStats makes it a Reporter too.
func (s *sweeper) LastStats() backends.Stats { return backends.Stats{Written: 7} }

func (s *sweeper) Sweep(context.Context) (left int, err error) {
	s.locked(func() {
		s.at = append(s.at, time.Since(s.start))
		if s.busy {
			s.inSync++
		}
		err = s.err
	})
	return 3, err
}

func (s *sweeper) want(t *testing.T, at ...time.Duration) {
	t.Helper()
	s.locked(func() {
		if !slices.Equal(s.at, at) || s.inSync > 0 {
			t.Errorf("swept at %v, %d times during a Sync, want %v", s.at, s.inSync, at)
		}
	})
}

func TestRunSweeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s *sweeper
		r := newRig(t, func(o *proxy.Options) {
			s = &sweeper{Backend: o.Backend, start: time.Now()}
			o.Backend, o.FullInterval = s, -1
			o.Observer.Swept = func(left int, err error) {
				if left != 3 {
					t.Errorf("Swept was given %d, want 3", left)
				}
				s.locked(func() { s.told = append(s.told, err) })
			}
		}).open()
		r.slow(5 * time.Second)
		r.run(t)
		time.Sleep(124 * time.Second)
		s.want(t, 65*time.Second)              // a minute after the first round
		r.SetService(svc("web", "10.96.0.50")) // a round from 124 to 129 s
		time.Sleep(10 * time.Second)
		s.want(t, 65*time.Second, 129*time.Second)
		s.locked(func() { s.err = errKernel })
		time.Sleep(65 * time.Second)
		synctest.Wait()
		r.wantStarts(t, 0, 124*time.Second, 189*time.Second)
		if d := r.lastDelta(t); !d.Full || r.last(t).Reason != proxy.ReasonRetry {
			t.Errorf("the Delta after a Sweep that failed: full %t, %q", d.Full, r.last(t).Reason)
		}
		if res, _ := r.last(t).Backend(); res.Stats.Written != 7 {
			t.Errorf("the Result has %+v, want what LastStats returned", res.Stats)
		}
		s.locked(func() {
			if len(s.told) != 3 || errors.Join(s.told[:2]...) != nil || !errors.Is(s.told[2], errKernel) {
				t.Errorf("Swept was given %v, want only the last one to have failed", s.told)
			}
		})
	})
}
