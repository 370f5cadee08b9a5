package proxy_test

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipkit/vipkit/proxy"
)

func TestGates(t *testing.T) {
	t.Run("J11 J12 nothing before both lists, then one full round", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, runner(time.Second, time.Minute, time.Hour))
			r.run(t)
			r.ReplaceServices([]*corev1.Service{svc("web", "10.96.0.50")})
			time.Sleep(time.Minute)
			r.wantStarts(t)
			if err := r.Step(t.Context()); !errors.Is(err, proxy.ErrGated) {
				t.Errorf("Step = %v, want ErrGated", err)
			}
			r.ReplaceEndpointSlices([]*discoveryv1.EndpointSlice{slice("web", "10.200.0.1")})
			time.Sleep(time.Minute)
			r.wantStarts(t, time.Minute)
			if d := r.lastDelta(t); !d.Full {
				t.Error("the first Delta is not Full")
			}
			r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.1:8080")
		})
	})
	t.Run("J13 events before the lists are in the first round", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, runner(time.Second, time.Minute, time.Hour))
			r.run(t)
			r.SetService(svc("web", "10.96.0.50"))
			r.SetEndpointSlice(slice("web", "10.200.0.1"))
			r.Trigger()
			time.Sleep(time.Second)
			r.wantStarts(t)
			for _, gate := range []string{proxy.GateServices, proxy.GateEndpointSlices} {
				if err := r.Open(gate); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Minute)
			r.wantStarts(t, time.Second)
			r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.1:8080")
		})
	})
	t.Run("J14 the first round is retried by the loop", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, runner(time.Second, 30*time.Second, time.Hour))
			r.backend.FailCall(1, errKernel)
			r.run(t)
			r.open()
			time.Sleep(time.Minute)
			r.wantStarts(t, 0, 30*time.Second)
		})
	})
}

func TestGatesOfTheUser(t *testing.T) {
	var opened []string
	r := newRig(t, func(o *proxy.Options) {
		o.Gates = []string{"node"}
		o.Observer.GateOpened = func(name string) { opened = append(opened, name) }
	}).open()
	if err := r.Step(t.Context()); !errors.Is(err, proxy.ErrGated) || err.Error() != "proxy: step: waiting for sources: node" {
		t.Errorf("Step = %v, want an error that names the gate", err)
	}
	if err := r.Open("nodes"); !errors.Is(err, proxy.ErrUnknownGate) {
		t.Errorf("Open of an unknown gate = %v, want ErrUnknownGate", err)
	}
	for range 2 {
		if err := r.Open("node"); err != nil {
			t.Error(err)
		}
	}
	r.step(t)
	if want := []string{"services", "endpointslices", "node"}; !slices.Equal(opened, want) {
		t.Errorf("gates opened: %v, want %v", opened, want)
	}
}

// A restarted proxy finds its own rules in the kernel: they stay until every
// source has delivered.
func TestRestartPrunesNothingEarly(t *testing.T) {
	t.Run("#20 first sync before everything was delivered", func(t *testing.T) {
		services := []*corev1.Service{svc("a", "10.96.0.1"), svc("b", "10.96.0.2"), svc("c", "10.96.0.3")}
		slices := []*discoveryv1.EndpointSlice{slice("a", "10.200.0.1"), slice("b", "10.200.0.2"), slice("c", "10.200.0.3")}
		before := newRig(t)
		before.ReplaceServices(services)
		before.ReplaceEndpointSlices(slices)
		before.step(t)

		flows := &recorder{}
		after := newRig(t, func(o *proxy.Options) {
			o.Backend = before.backend
			o.Consumers = []proxy.Consumer{{Name: "conntrack", Syncer: flows}}
		})
		after.backend = before.backend
		calls := len(after.backend.Calls())
		after.SetService(services[0])
		if err := after.Step(t.Context()); !errors.Is(err, proxy.ErrGated) {
			t.Errorf("Step = %v, want ErrGated", err)
		}
		after.ReplaceServices(services)
		if err := after.Step(t.Context()); !errors.Is(err, proxy.ErrGated) {
			t.Errorf("Step = %v, want ErrGated", err)
		}
		if n := len(after.backend.Calls()) - calls; n != 0 || len(flows.deltas) != 0 {
			t.Errorf("%d calls of the backend and %d of conntrack before both lists", n, len(flows.deltas))
		}
		after.wantEndpoints(t, "10.96.0.3:80", "10.200.0.3:8080")

		after.ReplaceEndpointSlices(slices)
		after.step(t)
		if n := len(after.backend.Calls()) - calls; n != 1 || !after.lastDelta(t).Full || !flows.deltas[0].Full {
			t.Errorf("%d calls, want one full round", n)
		}
		after.wantInPlace(t)
	})
}
