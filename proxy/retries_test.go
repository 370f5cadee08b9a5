package proxy_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// attempts lists when the backend was given a port, since the rig was made.
func (r *rig) attempts(n string) (at []time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.backend.Calls()
	for i, c := range calls {
		if slices.Contains(changed(c.Delta), "ns1/"+n+":http IPv4") {
			at = append(at, r.called[len(r.called)-len(calls)+i])
		}
	}
	return at
}

// backoff sets a backoff from 1 s to 8 s and no checks.
func backoff(o *proxy.Options) {
	o.MinBackoff, o.MaxBackoff, o.CheckInterval = time.Second, 8*time.Second, -1
}

func wantTimes(t *testing.T, what string, got []time.Duration, want ...time.Duration) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s at %v, want %v", what, got, want)
	}
}

const (
	sec = time.Second
	ms  = time.Millisecond
)

func TestPortsHaveABackoffOfTheirOwn(t *testing.T) {
	t.Run("fault F11 rounds without its change do not try a port that failed", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, backoff).open()
			r.backend.FailPort(key("bad"), errKernel)
			r.addWeb("bad", "10.96.0.1", "10.200.0.1")
			r.run(t)
			for i := range 100 {
				r.addWeb("good", "10.96.0.2", fmt.Sprintf("10.200.1.%d", i))
				time.Sleep(100 * ms)
			}
			synctest.Wait()
			wantTimes(t, "bad was tried", r.attempts("bad"), 0, 1*sec, 3*sec, 7*sec)
			if got := len(r.attempts("good")); got < 100 {
				t.Errorf("good was written %d times, want each of 100 versions", got)
			}
			if held := r.last(t).Held; held != 1 || r.last(t).Err != nil {
				t.Errorf("a round without the port holds %d ports and says %v, want 1 and no error", held, r.last(t).Err)
			}
			r.backend.FailPort(key("bad"), nil)
			time.Sleep(8 * sec)
			r.wantInPlace(t)
			if held := r.last(t).Held; held != 0 {
				t.Errorf("%d ports are held, want none", held)
			}
		})
	})
	t.Run("fault F11 its change is tried at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, backoff).open()
			r.backend.FailPort(key("bad"), errKernel)
			r.addWeb("bad", "10.96.0.1", "10.200.0.1")
			r.run(t)
			time.Sleep(3500 * ms)
			r.backend.FailPort(key("bad"), nil)
			r.SetEndpointSlice(slice("bad", "10.200.0.2"))
			synctest.Wait()
			wantTimes(t, "bad was tried", r.attempts("bad"), 0, 1*sec, 3*sec, 3500*ms)
			r.wantInPlace(t)
			time.Sleep(time.Minute)
			r.wantStarts(t, 0, 1*sec, 3*sec, 3500*ms)
		})
	})
	t.Run("fault F11 so is its removal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, backoff).open()
			r.addWeb("bad", "10.96.0.1", "10.200.0.1")
			r.run(t)
			synctest.Wait()
			r.backend.FailPort(key("bad"), errKernel)
			r.SetEndpointSlice(slice("bad", "10.200.0.2"))
			synctest.Wait()
			r.backend.FailPort(key("bad"), nil)
			time.Sleep(100 * ms)
			r.DeleteService(name("bad"))
			synctest.Wait()
			r.wantStarts(t, 0, 0, 100*ms)
			r.wantInPlace(t)
		})
	})
	t.Run("fault F11 an address that goes to another port is taken from it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, backoff).open()
			r.addWeb("bad", "10.96.0.1", "10.200.0.1")
			r.run(t)
			synctest.Wait()
			r.backend.FailPort(key("bad"), errKernel)
			r.SetService(svc("bad", "10.96.0.9"))
			time.Sleep(100 * ms)
			r.backend.FailPort(key("bad"), nil)
			r.addWeb("other", "10.96.0.1", "10.200.0.7")
			synctest.Wait()
			r.wantEndpoints(t, "10.96.0.1:80", "10.200.0.7:8080")
			r.wantInPlace(t)
		})
	})
	t.Run("fault F11 a Step tries all", func(t *testing.T) {
		r := newRig(t, backoff).open()
		r.backend.FailPort(key("bad"), errKernel)
		r.addWeb("bad", "10.96.0.1", "10.200.0.1")
		for range 3 {
			if err := r.Step(t.Context()); !errors.Is(err, errKernel) {
				t.Errorf("Step = %v, want %v", err, errKernel)
			}
		}
	})
	t.Run("fault F11 many ports that failed at different times make few rounds", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, backoff).open()
			r.run(t)
			for i := range 100 {
				n := fmt.Sprint("bad", i)
				r.backend.FailPort(key(n), errKernel)
				r.addWeb(n, fmt.Sprint("10.96.0.", i), "10.200.0.1")
				time.Sleep(90 * ms)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			before := len(r.backend.Calls())
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := len(r.backend.Calls()) - before; n > 120 {
				t.Errorf("%d rounds in a minute, want at most two in a second", n)
			}
		})
	})
}

func TestHealthOfPortsThatFail(t *testing.T) {
	late := func(t *testing.T, l *listener, want bool) {
		t.Helper()
		synctest.Wait()
		if got := l.late(time.Minute); got != want {
			t.Errorf("late: %v, want %v", got, want)
		}
	}
	start := func(t *testing.T) (*rig, *listener) {
		t.Helper()
		l := &listener{}
		r := newRig(t, backoff, func(o *proxy.Options) { o.Consumers = []proxy.Consumer{{Name: "health", Syncer: l}} }).open()
		for i := range 20 {
			r.addWeb(fmt.Sprint("s", i), fmt.Sprint("10.96.0.", i), "10.200.0.1")
		}
		r.run(t)
		synctest.Wait()
		return r, l
	}
	t.Run("fault F13 nearly everything fails, and an ordinary change does not hide it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, l := start(t)
			for i := range 19 {
				r.backend.FailPort(key(fmt.Sprint("s", i)), errKernel)
				r.SetEndpointSlice(slice(fmt.Sprint("s", i), "10.200.0.2"))
			}
			for i := range 59 {
				time.Sleep(sec)
				late(t, l, false)
				r.SetEndpointSlice(slice("s19", fmt.Sprint("10.200.1.", i)))
			}
			time.Sleep(sec)
			late(t, l, true)
			for i := range 19 {
				r.backend.FailPort(key(fmt.Sprint("s", i)), nil)
			}
			time.Sleep(9 * sec)
			late(t, l, false)
			r.wantInPlace(t)
		})
	})
	t.Run("fault F13 one port that cannot be written for longer than the timeout", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, l := start(t)
			r.backend.FailPort(key("s3"), errKernel)
			for i := range 70 { // though it changes all the time
				r.SetEndpointSlice(slice("s3", fmt.Sprint("10.200.2.", i)))
				time.Sleep(sec)
			}
			late(t, l, true)
		})
	})
	t.Run("fault F13 a port that is refused for what it is does not count", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, l := start(t)
			r.backend.FailPort(key("s3"), &backends.LimitError{What: "endpoints", Have: 2, Most: 1})
			r.SetEndpointSlice(slice("s3", "10.200.0.2", "10.200.0.3"))
			time.Sleep(10 * time.Minute)
			late(t, l, false)
		})
	})
	t.Run("fault F13 ports that fail one after the other and recover", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, l := start(t)
			for i := range 10 {
				n := fmt.Sprint("s", i)
				r.backend.FailPort(key(n), errKernel)
				r.SetEndpointSlice(slice(n, "10.200.0.2"))
				time.Sleep(15 * sec)
				if i > 0 {
					r.backend.FailPort(key(fmt.Sprint("s", i-1)), nil)
				}
				time.Sleep(15 * sec)
				late(t, l, false)
			}
		})
	})
}

func TestErrorsAreBounded(t *testing.T) {
	t.Run("fault F13 the error of a round with a thousand ports", func(t *testing.T) {
		r := newRig(t, backoff).open()
		for i := range 1000 {
			n := fmt.Sprintf("s%04d", i)
			r.backend.FailPort(key(n), errKernel)
			r.addWeb(n, fmt.Sprintf("10.96.%d.%d", i/250, i%250), "10.200.0.1")
		}
		err := r.Step(t.Context())
		var partial *plan.PartialError
		if !errors.As(err, &partial) || len(partial.Ports) != 1000 {
			t.Fatalf("Step = %.200v, want 1000 ports", err)
		}
		if text := err.Error(); len(text) > 1000 || !strings.HasSuffix(text, "; and 995 more") {
			t.Errorf("%d bytes: %.2000s", len(text), text)
		}
	})
}
