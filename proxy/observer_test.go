package proxy_test

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

func TestProgrammed(t *testing.T) {
	// latencies returns a rig that notes what Programmed says.
	latencies := func(t *testing.T) (*rig, *[]string) {
		t.Helper()
		var got []string
		r := newRig(t, func(o *proxy.Options) {
			o.Observer.Programmed = func(svc types.NamespacedName, latency time.Duration) {
				got = append(got, svc.Name+" "+latency.String())
			}
		}).open()
		time.Sleep(time.Second) // triggers must be later than the tracker
		return r, &got
	}
	t.Run("J19 trigger times of a failed round are told after the retry", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, got := latencies(t)
			r.SetService(svc("web", "10.96.0.50"))
			r.SetEndpointSlice(triggered(slice("web", "10.200.0.1"), time.Now()))
			time.Sleep(2 * time.Second)
			r.SetEndpointSlice(triggered(slice("web", "10.200.0.2"), time.Now()))
			r.backend.FailCall(1, errKernel)
			if err := r.Step(t.Context()); !errors.Is(err, errKernel) {
				t.Fatal(err)
			}
			if len(*got) > 0 {
				t.Errorf("told %v although the round failed", *got)
			}
			time.Sleep(30 * time.Second)
			r.step(t)
			r.step(t)
			if want := []string{"web 32s", "web 30s"}; !slices.Equal(*got, want) {
				t.Errorf("told %v, want %v", *got, want)
			}
		})
	})
	t.Run("those of a port that failed wait for it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r, got := latencies(t)
			for i, n := range []string{"a", "b"} {
				r.SetService(svc(n, "10.96.0."+string(rune('1'+i))))
				r.SetEndpointSlice(triggered(slice(n, "10.200.0.1"), time.Now()))
			}
			r.backend.FailPort(key("b"), errKernel)
			if err := r.Step(t.Context()); !errors.Is(err, errKernel) {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			r.backend.FailPort(key("b"), nil)
			r.step(t)
			if want := []string{"a 0s", "b 1s"}; !slices.Equal(*got, want) {
				t.Errorf("told %v, want %v", *got, want)
			}
		})
	})
}

func TestProblems(t *testing.T) {
	var events []string
	event := func(what string) func(plan.Problem) {
		return func(p plan.Problem) { events = append(events, what+" "+p.Object+" "+p.Field) }
	}
	r := newRig(t, func(o *proxy.Options) {
		o.Observer.ProblemFound, o.Observer.ProblemGone = event("found"), event("gone")
	}).open()
	want := func(want ...string) {
		t.Helper()
		if !slices.Equal(events, want) {
			t.Errorf("events %q, want %q", events, want)
		}
		events = nil
	}
	bad := svc("web", "10.96.0.50")
	bad.Spec.ExternalIPs = []string{"198.51.100.1", "none", "203.0.113.300"}
	r.SetService(bad)
	want("found Service ns1/web spec.externalIPs[1]", "found Service ns1/web spec.externalIPs[2]")
	r.SetService(bad)
	want()
	badSlice := slice("web", "10.200.0.1")
	badSlice.Labels = nil
	r.SetEndpointSlice(badSlice)
	want("found EndpointSlice ns1/web-1 metadata.labels[kubernetes.io/service-name]")
	r.SetServiceCIDR(serviceCIDR("more", "10.97.0.0/16", "10.98.0.0"))
	want("found ServiceCIDR more spec.cidrs[1]")

	var objects []string
	for _, p := range r.Problems() {
		objects = append(objects, p.Object+" "+p.Field)
		if p.Err == "" {
			t.Errorf("no text: %+v", p)
		}
	}
	if want := []string{
		"EndpointSlice ns1/web-1 metadata.labels[kubernetes.io/service-name]",
		"Service ns1/web spec.externalIPs[1]", "Service ns1/web spec.externalIPs[2]",
		"ServiceCIDR more spec.cidrs[1]",
	}; !slices.Equal(objects, want) {
		t.Errorf("problems %q, want %q", objects, want)
	}

	r.step(t)
	if r.backend.Plan().Len() != 1 {
		t.Error("the rest of the Service is not in place")
	}
	bad = bad.DeepCopy()
	bad.Spec.ExternalIPs[2] = "203.0.113.30"
	r.SetService(bad)
	want("gone Service ns1/web spec.externalIPs[2]")
	r.ReplaceServices([]*corev1.Service{svc("api", "10.96.0.51")})
	want("gone Service ns1/web spec.externalIPs[1]")
	r.DeleteEndpointSlice(types.NamespacedName{Namespace: "ns1", Name: "web-1"})
	want("gone EndpointSlice ns1/web-1 metadata.labels[kubernetes.io/service-name]")
	r.ReplaceServiceCIDRs([]*networkingv1.ServiceCIDR{serviceCIDR("other", "x")})
	want("gone ServiceCIDR more spec.cidrs[1]", "found ServiceCIDR other spec.cidrs[0]")
	r.DeleteServiceCIDR("other")
	want("gone ServiceCIDR other spec.cidrs[0]")
	if p := r.Problems(); len(p) > 0 {
		t.Errorf("problems %v, want none", p)
	}
}

func TestProblemsOfThePlan(t *testing.T) {
	t.Run("K09 primary without a node address", func(t *testing.T) {
		var found, gone []string
		r := newRig(t, func(o *proxy.Options) {
			o.Config.Node = plan.Node{Name: "n1"}
			o.Observer.ProblemFound = func(p plan.Problem) { found = append(found, p.Object) }
			o.Observer.ProblemGone = func(p plan.Problem) { gone = append(gone, p.Object) }
		}).open()
		s := svc("web", "10.96.0.50")
		s.Spec.Type = corev1.ServiceTypeNodePort
		s.Spec.Ports[0].NodePort = 30080
		r.SetService(s)
		r.step(t)
		if want := []string{"Node n1"}; !slices.Equal(found, want) || len(r.Problems()) != 1 {
			t.Errorf("found %v, problems %v, want one of the node", found, r.Problems())
		}
		r.SetNode(node())
		r.step(t)
		if len(gone) != 1 || len(r.Problems()) != 0 {
			t.Errorf("gone %v, problems %v, want none left", gone, r.Problems())
		}
	})
}

func TestConflicts(t *testing.T) {
	var events []string
	r := newRig(t, func(o *proxy.Options) {
		o.Observer.ConflictFound = func(c plan.Conflict) { events = append(events, c.Loser.Name+" loses to "+c.Owner.Name) }
		o.Observer.ConflictGone = func(c plan.Conflict) { events = append(events, c.Loser.Name+" is free of "+c.Owner.Name) }
	}).open()
	r.addWeb("a", "10.96.0.50", "10.200.0.1")
	r.addWeb("b", "10.96.0.50", "10.200.0.2")
	r.step(t)
	r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.1:8080")
	r.DeleteService(name("a"))
	r.step(t)
	r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.2:8080")
	if want := []string{"b loses to a", "b is free of a"}; !slices.Equal(events, want) {
		t.Errorf("events %q, want %q", events, want)
	}
}

func TestRound(t *testing.T) {
	r := newRig(t).open()
	r.addWeb("a", "10.96.0.1", "10.200.0.1")
	r.addWeb("b", "10.96.0.2", "10.200.0.2")
	r.step(t)
	res, ok := r.last(t).Backend()
	if !ok || !res.Full || res.Changes != 2 || r.last(t).Services != 2 || r.last(t).Endpoints != 2 {
		t.Errorf("first round %+v", r.last(t))
	}
	r.SetEndpointSlice(slice("a", "10.200.0.3"))
	r.step(t)
	res, ok = r.last(t).Backend()
	if !ok || res.Full || res.Changes != 1 || r.last(t).Services != 0 || r.last(t).Endpoints != 1 {
		t.Errorf("second round %+v", r.last(t))
	}
	r.step(t)
	if _, ok := r.last(t).Backend(); ok {
		t.Errorf("third round %+v, want nothing to do", r.last(t))
	}
}

func TestMetadataOnlyUpdateMakesNoRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, runner(0, time.Minute, time.Hour)).open()
		r.addWeb("web", "10.96.0.50", "10.200.0.1")
		r.run(t)
		time.Sleep(time.Second)
		s, e := svc("web", "10.96.0.50"), slice("web", "10.200.0.1")
		s.ResourceVersion, e.ResourceVersion = "2", "2"
		s.Annotations = map[string]string{"a": "b"}
		e.Labels["team"] = "blue"
		r.SetService(s)
		r.SetEndpointSlice(e)
		r.SetService(nil)
		r.SetEndpointSlice(nil)
		r.SetServiceCIDR(nil)
		r.ReplaceServices([]*corev1.Service{nil, s})
		r.ReplaceEndpointSlices([]*discoveryv1.EndpointSlice{e, nil})
		time.Sleep(time.Second)
		r.wantStarts(t, 0)
	})
}

// An Observer may change the input: the loop must neither lock up nor lose it.
func TestObserverMayCallBack(t *testing.T) {
	var r *rig
	queued, inside := 0, false
	r = newRig(t, func(o *proxy.Options) {
		o.Observer.Queued = func() { queued++ }
		o.Observer.ProblemFound = func(plan.Problem) {
			inside = true
			r.DeleteService(name("web"))
			_ = r.Problems()
			inside = false
		}
		o.Observer.ProblemGone = func(plan.Problem) {
			if inside {
				t.Error("one function was called while another ran")
			}
		}
		o.Observer.GateOpened = func(string) { r.Trigger() }
	})
	r.open()
	r.step(t)
	bad := svc("web", "10.96.0.50")
	bad.Spec.ExternalIPs = []string{"x"}
	r.SetService(bad)
	r.step(t)
	if r.Plan().Len() != 0 || len(r.Problems()) != 0 {
		t.Errorf("plan\n%s\nproblems %v, want none", r.Plan(), r.Problems())
	}
	if queued != 2 {
		t.Errorf("queued %d times, want 2", queued)
	}
}

func TestObserverMayPanic(t *testing.T) {
	gone := 0
	r := newRig(t, func(o *proxy.Options) {
		o.Observer.ProblemFound = func(plan.Problem) { panic("mine") }
		o.Observer.ProblemGone = func(plan.Problem) { gone++ }
	}).open()
	bad := svc("web", "10.96.0.50")
	bad.Spec.ExternalIPs = []string{"x"}
	func() {
		defer func() {
			if got := recover(); got != "mine" {
				t.Errorf("recovered %v", got)
			}
		}()
		r.SetService(bad)
	}()
	r.DeleteService(name("web"))
	r.step(t)
	if gone != 1 {
		t.Errorf("ProblemGone was called %d times, want once", gone)
	}
}

func TestLogger(t *testing.T) {
	var text strings.Builder
	r := newRig(t, func(o *proxy.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}).open()
	bad := svc("web", "10.96.0.50")
	bad.Spec.ExternalIPs = []string{"x"}
	r.SetService(bad)
	r.backend.FailCall(1, errKernel)
	if err := r.Step(t.Context()); !errors.Is(err, errKernel) {
		t.Fatal(err)
	}
	if lines := strings.Count(text.String(), "level=DEBUG"); lines != 4 || strings.Count(text.String(), "level=") != 4 {
		t.Errorf("%d records, want two gates, a problem and a round, all at level Debug:\n%s", lines, &text)
	}
}
