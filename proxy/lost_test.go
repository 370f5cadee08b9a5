package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

func TestNoEventIsLost(t *testing.T) {
	t.Run("#4 events between reading and applying", func(t *testing.T) {
		r := newRig(t).open()
		r.addWeb("web", "10.96.0.50", "10.200.0.1")
		flips := 50_000
		if testing.Short() {
			flips = 5_000
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			for i := range flips {
				r.SetEndpointSlice(slice("web", "10.200.0."+fmt.Sprint(1+i%2)))
			}
		})
		wg.Go(func() {
			for i := range flips / 10 {
				n := fmt.Sprint("other-", i%7)
				r.addWeb(n, "10.96.1."+fmt.Sprint(i%7), "10.200.0.9")
				r.DeleteService(name(n))
			}
		})
		done := make(chan struct{})
		go func() {
			defer close(done)
			wg.Wait()
		}()
		for running := true; running; {
			r.step(t)
			select {
			case <-done:
				running = false
			default:
			}
		}
		r.step(t)
		r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.2:8080")
		r.wantInPlace(t)
	})
}

// Nobody calls Step: the loop has to see by itself that something came in
// between taking up requests and reading the trackers.
func TestNoRequestIsLost(t *testing.T) {
	t.Run("#4 events while Run works", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, runner(0, time.Minute, -1)).open()
			r.SetService(svc("web", "10.96.0.50"))
			r.run(t)
			for i := range 5_000 {
				r.SetEndpointSlice(slice("web", "10.200.0."+fmt.Sprint(1+i%2)))
				second := slice("web", "10.200.0."+fmt.Sprint(3+i%2))
				for range i % 200 {
					runtime.Gosched() // another moment of the round each time
				}
				r.SetEndpointSlice(second)
				synctest.Wait()
				r.wantEndpoints(t, "10.96.0.50:80", "10.200.0."+fmt.Sprint(3+i%2)+":8080")
			}
		})
	})
}

// A change that comes while the Backend writes belongs to the next round.
func TestEventDuringSync(t *testing.T) {
	r := newRig(t).open()
	r.addWeb("web", "10.96.0.50", "10.200.0.1")
	r.step(t)
	r.backend.OnSync(func(context.Context, *plan.Delta) error {
		r.backend.OnSync(nil)
		r.SetEndpointSlice(slice("web", "10.200.0.3"))
		return nil
	})
	r.SetEndpointSlice(slice("web", "10.200.0.2"))
	r.step(t)
	r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.2:8080")
	r.step(t)
	r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.3:8080")
}

// What was tried and never acknowledged is removed with the rest.
func TestDeletedWhileTried(t *testing.T) {
	r := newRig(t).open()
	r.addWeb("a", "10.96.0.1", "10.200.0.1")
	r.step(t)
	r.addWeb("web", "10.96.0.50", "10.200.0.1")
	r.SetEndpointSlice(slice("a", "10.200.0.2"))
	r.backend.FailWrite(2, errKernel)
	if err := r.Step(t.Context()); !errors.Is(err, errKernel) {
		t.Fatalf("Step = %v, want %v", err, errKernel)
	}
	tried := r.Plan().Port(key("web"))
	r.DeleteService(name("web"))
	r.step(t)
	d := r.lastDelta(t)
	i := slices.IndexFunc(d.Changes, func(c plan.Change) bool { return c.Key == key("web") })
	if i < 0 || d.Changes[i].After != nil || !slices.Contains(d.Changes[i].Before, tried) {
		t.Errorf("changes %+v, want the removal of what was tried", d.Changes)
	}
	r.wantInPlace(t)
}

// After a failure all follow-up work is done as if the first attempt had
// succeeded, by the backend and by who comes after it.
func TestFailedWriteLosesNothing(t *testing.T) {
	nodePort := func(port int32) *corev1.Service {
		s := svc("web", "10.96.0.50")
		s.Spec.Type = corev1.ServiceTypeNodePort
		s.Spec.Ports[0].NodePort = port
		return s
	}
	tests := []struct {
		name   string
		change func(*rig)
	}{
		{"#5 an endpoint is replaced", func(r *rig) { r.SetEndpointSlice(slice("web", "10.200.0.2")) }},
		{"#5 a Service is deleted", func(r *rig) { r.DeleteService(name("web")) }},
		{"#5 a node port changes", func(r *rig) { r.SetService(nodePort(30002)) }},
	}
	for _, tt := range tests {
		for _, fault := range []string{"before", "midway"} {
			t.Run(tt.name+", failing "+fault, func(t *testing.T) {
				flows := &recorder{}
				r := newRig(t, withConsumers([]string{"conntrack"}, flows)).open()
				r.SetService(nodePort(30001))
				r.SetEndpointSlice(slice("web", "10.200.0.1"))
				r.step(t)
				old := r.Plan().Port(key("web"))

				if fault == "before" {
					r.backend.FailCall(1, errKernel)
				} else {
					r.backend.FailWrite(1, errKernel)
				}
				tt.change(r)
				if err := r.Step(t.Context()); !errors.Is(err, errKernel) {
					t.Fatalf("Step = %v, want %v", err, errKernel)
				}
				r.step(t)
				if d := r.lastDelta(t); !d.Full || !slices.Contains(d.Changes[0].Before, old) {
					t.Errorf("the retry is full %v with %+v, want a full one with the old version", d.Full, d.Changes)
				}
				r.wantInPlace(t)
				d := flows.last(t)
				if d.Full || len(d.Changes) != 1 || len(d.Changes[0].Before) == 0 || d.Changes[0].Before[0] != old ||
					d.Changes[0].After != r.Plan().Port(key("web")) {
					t.Errorf("the consumer was given %+v, want the change from the old version", d.Changes)
				}
			})
		}
	}
}

// A follower is a consumer that wants to know what the Backend tried.
type follower struct {
	recorder

	tried []*plan.Delta
}

func (f *follower) Tried(d *plan.Delta) { f.tried = append(f.tried, d) }

// What the Backend tried in a round that failed may have been in place, and packets
// may have followed it: who removes flows must hear of it even if it is in no later plan.
func TestFollowersHearWhatWasTried(t *testing.T) {
	start := func(t *testing.T) (*rig, *follower) {
		t.Helper()
		flows := &follower{}
		return newRig(t, func(o *proxy.Options) {
			o.Consumers = []proxy.Consumer{{Name: "conntrack", Syncer: flows}}
		}).open(), flows
	}
	fails := func(t *testing.T, r *rig) *plan.Port {
		t.Helper()
		r.backend.FailCall(1, errKernel)
		if err := r.Step(t.Context()); !errors.Is(err, errKernel) {
			t.Fatalf("Step = %v, want %v", err, errKernel)
		}
		return r.Plan().Port(key("web"))
	}
	check := func(t *testing.T, flows *follower, want ...*plan.Port) {
		t.Helper()
		var got []*plan.Port
		for _, d := range flows.tried {
			for _, c := range d.Changes {
				if c.Key == key("web") {
					got = append(got, c.After)
				}
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("told of %v, want %v", got, want)
		}
	}
	t.Run("#5 a Service that was only in a failed round", func(t *testing.T) {
		r, flows := start(t)
		r.addWeb("other", "10.96.0.1", "10.200.0.1")
		r.step(t)
		var tried []*plan.Port
		for _, endpoint := range []string{"10.200.0.1", "10.200.0.2"} {
			r.addWeb("web", "10.96.0.50", endpoint)
			tried = append(tried, fails(t, r))
		}
		check(t, flows, tried...)
		r.DeleteService(name("web"))
		r.step(t)
		if d := flows.last(t); !d.Full || len(flows.deltas) != 2 {
			t.Errorf("%d calls, the last one full %v, want a full one", len(flows.deltas), d.Full)
		}
		r.SetEndpointSlice(slice("other", "10.200.0.2"))
		r.step(t)
		if got := changed(flows.last(t)); !slices.Equal(got, []string{"ns1/other:http IPv4"}) {
			t.Errorf("the round after it has %v, want only its own change", got)
		}
		check(t, flows, tried...)
	})
	t.Run("a first round that fails", func(t *testing.T) {
		r, flows := start(t)
		r.addWeb("web", "10.96.0.50", "10.200.0.1")
		check(t, flows, fails(t, r))
		if len(flows.deltas) > 0 {
			t.Error("Sync was called too")
		}
	})
	t.Run("a port that fails is no failed round", func(t *testing.T) {
		r, flows := start(t)
		r.backend.FailPort(key("web"), errKernel)
		r.addWeb("web", "10.96.0.50", "10.200.0.1")
		if err := r.Step(t.Context()); !errors.Is(err, errKernel) {
			t.Fatalf("Step = %v, want %v", err, errKernel)
		}
		check(t, flows)
	})
}

func TestSameNameNewObject(t *testing.T) {
	start := func(t *testing.T) *rig {
		t.Helper()
		r := newRig(t).open()
		s := svc("web", "10.96.0.50")
		s.UID = "1"
		r.SetService(s)
		r.SetEndpointSlice(slice("web", "10.200.0.1"))
		r.step(t)
		return r
	}
	again := svc("web", "10.96.0.50")
	again.UID = "2"
	t.Run("#19 deleted and made again", func(t *testing.T) {
		r := start(t)
		r.DeleteService(name("web"))
		r.DeleteEndpointSlice(name("web-1"))
		r.SetService(again)
		r.SetEndpointSlice(slice("web", "10.200.0.2"))
		r.step(t)
		r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.2:8080")
	})
	t.Run("#19 another name takes the address", func(t *testing.T) {
		r := start(t)
		r.DeleteService(name("web"))
		r.addWeb("new", "10.96.0.50", "10.200.0.2")
		r.step(t)
		r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.2:8080")
	})
	t.Run("#19 the new one comes before the deletion", func(t *testing.T) {
		r := start(t)
		r.addWeb("new", "10.96.0.50", "10.200.0.2")
		r.step(t)
		r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.2:8080") // "new" is the older name of two that have no date
		r.DeleteService(name("web"))
		r.step(t)
		r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.2:8080")
		if c := r.Plan().Conflicts(); len(c) != 0 {
			t.Errorf("conflicts %v, want none", c)
		}
	})
}

func TestFilteredEndpoints(t *testing.T) {
	with := func(ready, serving, terminating bool) *discoveryv1.EndpointSlice {
		s := slice("web", "10.200.0.1", "10.200.0.2")
		s.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
		return s
	}
	t.Run("#30 ready, then neither serving nor ready, then gone", func(t *testing.T) {
		r := newRig(t).open()
		r.SetService(svc("web", "10.96.0.50"))
		r.SetEndpointSlice(with(true, true, false))
		r.step(t)
		r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.1:8080", "10.200.0.2:8080")
		r.SetEndpointSlice(with(false, false, true))
		r.step(t)
		r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.2:8080")
		r.SetEndpointSlice(slice("web", "10.200.0.2"))
		r.step(t)
		r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.2:8080")
	})
	t.Run("#30 ready wins over terminating (publishNotReadyAddresses)", func(t *testing.T) {
		r := newRig(t).open()
		r.SetService(svc("web", "10.96.0.50"))
		r.SetEndpointSlice(with(true, true, true))
		r.step(t)
		r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.1:8080", "10.200.0.2:8080")
	})
}

func TestProxyNameLabel(t *testing.T) {
	const label = "service.kubernetes.io/service-proxy-name"
	labelled := func(value string) *corev1.Service {
		s := svc("web", "10.96.0.50")
		s.Labels = map[string]string{label: value}
		return s
	}
	t.Run("#31 the label comes and goes", func(t *testing.T) {
		r := newRig(t).open()
		r.addWeb("web", "10.96.0.50", "10.200.0.1")
		r.step(t)
		r.SetService(labelled("other"))
		r.SetEndpointSlice(slice("web", "10.200.0.2"))
		r.step(t)
		if got := r.dial("10.96.0.50:80").Verdict; got != plan.Pass {
			t.Errorf("verdict %v with the label, want pass", got)
		}
		r.SetService(svc("web", "10.96.0.50"))
		r.step(t)
		r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.2:8080")
	})
	t.Run("#31 the label on the slice only", func(t *testing.T) {
		r := newRig(t).open()
		r.addWeb("web", "10.96.0.50", "10.200.0.1")
		r.step(t)
		s := slice("web", "10.200.0.1")
		s.Labels[label] = "other"
		r.SetEndpointSlice(s)
		r.step(t)
		r.wantEndpoints(t, "10.96.0.50:80")
	})
}

func TestBurst(t *testing.T) {
	t.Run("#80 500 Services with 4 endpoints in any order", func(t *testing.T) {
		r := newRig(t).open()
		var events []func()
		for i := range 500 {
			n, ip := fmt.Sprint("s", i), fmt.Sprintf("10.96.%d.%d", i/250, 1+i%250)
			var eps []string
			for e := range 4 {
				eps = append(eps, fmt.Sprintf("10.200.%d.%d", i%250, 1+e+4*(i/250)))
			}
			events = append(events, func() { r.SetService(svc(n, ip)) }, func() { r.SetEndpointSlice(slice(n, eps...)) })
		}
		rand.Shuffle(len(events), func(i, j int) { events[i], events[j] = events[j], events[i] })
		for i, event := range events {
			event()
			if i%100 == rand.IntN(100) {
				r.step(t)
			}
		}
		r.step(t)
		total := 0
		for port := range r.backend.Plan().All() {
			total += len(port.Cluster)
		}
		if total != 2000 {
			t.Errorf("%d endpoints in place, want 2000", total)
		}
		r.wantInPlace(t)
	})
}

// Fail any number of times in any way while objects change, then one good round:
// what is in place is what a fresh start would write.
func TestRandomFaults(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		r := newRig(t).open()
		for range 60 {
			n := string(rune('a' + rnd.IntN(5)))
			switch rnd.IntN(9) {
			case 0, 1:
				r.SetService(svc(n, fmt.Sprint("10.96.0.", 1+rnd.IntN(4))))
			case 2, 3:
				r.SetEndpointSlice(slice(n, fmt.Sprint("10.200.0.", 1+rnd.IntN(3))))
			case 4:
				r.DeleteService(name(n))
			case 5:
				r.backend.FailCall(1, errKernel)
			case 6:
				r.backend.FailWrite(rnd.IntN(3)+1, errKernel)
			case 7:
				r.backend.FailPort(key(n), []error{nil, errKernel}[rnd.IntN(2)])
			default:
				if err := r.Step(t.Context()); err != nil && !errors.Is(err, errKernel) {
					t.Fatal(err)
				}
			}
		}
		for c := range strings.SplitSeq("abcde", "") {
			r.backend.FailPort(key(c), nil)
		}
		// Faults that were ordered for the next call may still be waiting.
		for r.Step(t.Context()) != nil {
			continue
		}
		r.wantInPlace(t)
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
