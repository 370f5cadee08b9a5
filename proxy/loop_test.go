package proxy_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

var errKernel = errors.New("kernel says no")

// runner sets kube-proxy's intervals: a fixed retry is a backoff with equal bounds.
func runner(least, retry, full time.Duration) func(*proxy.Options) {
	return func(o *proxy.Options) {
		o.MinInterval, o.MinBackoff, o.MaxBackoff, o.FullInterval = least, retry, retry, full
		o.CheckInterval = -1
	}
}

// slow makes each Sync take d.
func (r *rig) slow(d time.Duration) {
	r.backend.OnSync(func(context.Context, *plan.Delta) error {
		time.Sleep(d)
		return nil
	})
}

func TestRunIntervals(t *testing.T) {
	const min1, retry30, full3600 = time.Second, 30 * time.Second, time.Hour
	tests := []struct {
		name               string
		least, retry, full time.Duration
		play               func(*rig) // from the moment Run starts
		want               []time.Duration
	}{
		{"J01 the first round runs at once", min1, retry30, full3600, func(*rig) {}, []time.Duration{0}},
		{"J02 requests during a round and the cool-down make one more", min1, retry30, full3600, func(r *rig) {
			r.slow(200 * time.Millisecond)
			time.Sleep(100 * time.Millisecond)
			r.SetService(svc("web", "10.96.0.50"))
			time.Sleep(400 * time.Millisecond)
			r.SetService(svc("api", "10.96.0.51"))
			time.Sleep(10 * time.Second)
		}, []time.Duration{0, 1200 * time.Millisecond}},
		{"J03 no requests", min1, retry30, full3600, func(*rig) {
			time.Sleep(2*time.Hour - time.Second)
		}, []time.Duration{0, time.Hour}},
		{"J04 a failed round is retried", min1, retry30, full3600, func(r *rig) {
			r.backend.FailCall(1, errKernel)
			time.Sleep(2 * time.Minute)
		}, []time.Duration{0, 30 * time.Second}},
		{"J05 a round that succeeds cancels the retry", min1, retry30, full3600, func(r *rig) {
			r.backend.FailCall(1, errKernel)
			time.Sleep(10 * time.Second)
			r.SetService(svc("web", "10.96.0.50"))
			time.Sleep(3601 * time.Second)
		}, []time.Duration{0, 10 * time.Second, 3610 * time.Second}},
		{"J06 equal bounds make a fixed retry", min1, retry30, full3600, func(r *rig) {
			for n := range 3 {
				r.backend.FailCall(n+1, errKernel)
			}
			time.Sleep(5 * time.Minute)
		}, []time.Duration{0, 30 * time.Second, 60 * time.Second, 90 * time.Second}},
		{"J06 a periodic round that fails is retried like any other", min1, retry30, full3600, func(r *rig) {
			r.backend.FailCall(2, errKernel)
			r.backend.FailCall(3, errKernel)
			time.Sleep(2 * time.Hour)
		}, []time.Duration{0, 3600 * time.Second, 3630 * time.Second, 3660 * time.Second}},
		{"J07 the minimum interval holds for retries", time.Minute, retry30, full3600, func(r *rig) {
			r.backend.FailCall(1, errKernel)
			time.Sleep(5 * time.Minute)
		}, []time.Duration{0, time.Minute}},
		{"J20 no minimum interval: rounds back to back", 0, retry30, full3600, func(r *rig) {
			r.slow(200 * time.Millisecond)
			for range 2 {
				time.Sleep(80 * time.Millisecond)
				r.SetService(svc("web", "10.96.0.50"))
				time.Sleep(80 * time.Millisecond)
				r.SetService(svc("web", "10.96.0.51"))
			}
			time.Sleep(10 * time.Second)
		}, []time.Duration{0, 200 * time.Millisecond, 400 * time.Millisecond}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, runner(tt.least, tt.retry, tt.full)).open()
				stop := make(chan struct{})
				go func() {
					defer close(stop)
					tt.play(r)
				}()
				synctest.Wait() // faults are in force before the first round
				r.run(t)
				<-stop
				synctest.Wait()
				r.wantStarts(t, tt.want...)
			})
		})
	}
}

func TestRunBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *proxy.Options) {
			o.MinBackoff, o.MaxBackoff, o.CheckInterval = time.Second, 5*time.Second, -1
		}).open()
		for n := range 5 {
			r.backend.FailCall(n+1, errKernel)
		}
		r.run(t)
		time.Sleep(time.Minute)
		s := time.Second
		r.wantStarts(t, 0, 1*s, 3*s, 7*s, 12*s, 17*s)

		// A success starts the backoff anew.
		r.backend.FailCall(1, errKernel)
		r.SetService(svc("web", "10.96.0.50"))
		time.Sleep(time.Minute)
		r.wantStarts(t, 0, 1*s, 3*s, 7*s, 12*s, 17*s, 60*s, 61*s)
	})
}

func TestRunStops(t *testing.T) {
	t.Run("J09 stop during the cool-down", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, runner(time.Minute, time.Minute, time.Hour)).open()
			stop := r.run(t)
			time.Sleep(time.Second)
			r.SetService(svc("web", "10.96.0.50"))
			synctest.Wait()
			if err := stop(); err != nil {
				t.Errorf("Run = %v, want nil", err)
			}
			if ran := time.Since(r.start); ran != time.Second {
				t.Errorf("Run returned after %v, want 1s", ran)
			}
			time.Sleep(time.Hour)
			r.wantStarts(t, 0)
		})
	})
	t.Run("J10 input after the stop is kept for the next Run", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, runner(0, time.Minute, time.Hour)).open()
			stop := r.run(t)
			time.Sleep(time.Second)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			r.SetService(svc("web", "10.96.0.50"))
			r.DeleteEndpointSlice(name("web-1"))
			r.Trigger()
			time.Sleep(time.Hour)
			r.wantStarts(t, 0)
			r.run(t)
			synctest.Wait()
			r.wantStarts(t, 0, time.Hour+time.Second)
			r.wantInPlace(t)
		})
	})
	t.Run("a round that was cut short is done when Run starts again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, runner(0, time.Minute, time.Hour)).open()
			r.backend.OnSync(func(ctx context.Context, _ *plan.Delta) error {
				<-ctx.Done()
				return ctx.Err()
			})
			stop := r.run(t)
			time.Sleep(time.Second)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			r.backend.OnSync(nil)
			r.run(t)
			synctest.Wait()
			r.wantStarts(t, 0, time.Second)
		})
	})
	t.Run("Run returns after the last round ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t).open()
			r.slow(5 * time.Second)
			stop := r.run(t)
			time.Sleep(time.Second)
			if err := stop(); err != nil {
				t.Errorf("Run = %v, want nil", err)
			}
			if ran := time.Since(r.start); ran != 5*time.Second {
				t.Errorf("Run returned after %v, want 5s", ran)
			}
		})
	})
}

func TestRunOnlyOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).open()
		stop := r.run(t)
		synctest.Wait()
		if err := r.Run(t.Context()); !errors.Is(err, proxy.ErrRunning) {
			t.Errorf("a second Run = %v, want ErrRunning", err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		r.run(t)
	})
}

func TestRunProbesFirst(t *testing.T) {
	r := newRig(t).open()
	r.backend.FailProbe(errors.ErrUnsupported)
	if err := r.Run(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Run = %v, want ErrUnsupported", err)
	}
	if calls := r.backend.Calls(); len(calls) > 0 {
		t.Errorf("the backend was called %d times", len(calls))
	}
}

func TestRunChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		type answer struct {
			changed []string
			err     error
		}
		var answers []answer
		r := newRig(t, runner(time.Second, time.Minute, time.Hour), func(o *proxy.Options) {
			o.CheckInterval = 10 * time.Second
			o.Observer.Checked = func(changed []string, err error) { answers = append(answers, answer{changed, err}) }
		}).open()
		r.SetService(svc("web", "10.96.0.50"))
		r.SetEndpointSlice(slice("web", "10.200.0.1"))
		r.run(t)

		time.Sleep(15 * time.Second)
		r.wantStarts(t, 0)
		r.backend.Wipe()
		time.Sleep(10 * time.Second)
		r.wantStarts(t, 0, 20*time.Second)
		if d := r.lastDelta(t); !d.Full {
			t.Error("the Delta after a failed check is not Full")
		}
		r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.1:8080")

		r.backend.FailCheck(errKernel)
		time.Sleep(10 * time.Second)
		r.wantStarts(t, 0, 20*time.Second)
		synctest.Wait()
		if len(answers) != 3 || len(answers[0].changed) > 0 || len(answers[1].changed) == 0 || answers[1].err != nil ||
			len(answers[2].changed) > 0 || !errors.Is(answers[2].err, errKernel) {
			t.Errorf("answers %v, want nothing, a change, an error", answers)
		}
	})
}

func TestTrigger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, runner(0, time.Minute, time.Hour)).open()
		r.run(t)
		time.Sleep(time.Second)
		r.Trigger()
		synctest.Wait()
		r.wantStarts(t, 0, time.Second)
		if d := r.lastDelta(t); !d.Full {
			t.Error("the Delta after Trigger is not Full")
		}
	})
}

func TestReasons(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, runner(0, time.Minute, time.Hour), func(o *proxy.Options) {
			o.CheckInterval = 2 * time.Hour
		}).open()
		r.step(t)
		r.step(t)
		r.SetService(svc("web", "10.96.0.50"))
		r.backend.FailCall(1, errKernel)
		if err := r.Step(t.Context()); !errors.Is(err, errKernel) {
			t.Fatalf("Step = %v, want %v", err, errKernel)
		}
		r.step(t)
		r.Trigger()
		r.step(t)
		time.Sleep(time.Hour)
		r.step(t)
		if d := r.lastDelta(t); !d.Full {
			t.Error("the periodic Delta is not Full")
		}
		want := []proxy.Reason{
			proxy.ReasonFirst, proxy.ReasonStep, proxy.ReasonChange, proxy.ReasonRetry, proxy.ReasonTrigger, proxy.ReasonPeriodic,
		}
		if !slices.Equal(r.reasons, want) {
			t.Errorf("reasons %v, want %v", r.reasons, want)
		}
	})
}

func TestStepWaitsForItsTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t).open()
		r.slow(5 * time.Second)
		r.run(t)
		time.Sleep(time.Second)
		r.SetService(svc("web", "10.96.0.50"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.Step(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Step = %v, want DeadlineExceeded", err)
		}
		r.step(t)
		r.wantInPlace(t)
	})
}
