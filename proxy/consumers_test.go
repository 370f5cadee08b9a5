package proxy_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A recorder is a consumer that keeps its Deltas and fails as it is told.
type recorder struct {
	deltas []*plan.Delta
	err    error
	onSync func()
}

func (r *recorder) Sync(_ context.Context, d *plan.Delta) error {
	r.deltas = append(r.deltas, d)
	if r.onSync != nil {
		r.onSync()
	}
	return r.err
}

func (r *recorder) last(t *testing.T) *plan.Delta {
	t.Helper()
	if len(r.deltas) == 0 {
		t.Fatal("the consumer was never called")
	}
	return r.deltas[len(r.deltas)-1]
}

func withConsumers(names []string, recorders ...*recorder) func(*proxy.Options) {
	return func(o *proxy.Options) {
		for i, r := range recorders {
			o.Consumers = append(o.Consumers, proxy.Consumer{Name: names[i], Syncer: r})
		}
	}
}

// addWeb gives the rig Service n at ip with one endpoint.
func (r *rig) addWeb(n, ip, endpoint string) {
	r.SetService(svc(n, ip))
	r.SetEndpointSlice(slice(n, endpoint))
}

func TestConsumersComeInOrder(t *testing.T) {
	var order []string
	conntrack := &recorder{onSync: func() { order = append(order, "conntrack") }}
	health := &recorder{onSync: func() { order = append(order, "health") }}
	r := newRig(t, withConsumers([]string{"conntrack", "health"}, conntrack, health)).open()
	r.backend.OnSync(func(context.Context, *plan.Delta) error {
		order = append(order, "backend")
		return nil
	})
	r.addWeb("web", "10.96.0.50", "10.200.0.1")
	r.step(t)
	if want := []string{"backend", "conntrack", "health"}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
	if results := r.last(t).Results; len(results) != 3 || results[0].Name != proxy.BackendName || results[2].Name != "health" {
		t.Errorf("results %+v", results)
	}
}

func TestConsumersWaitForTheBackend(t *testing.T) {
	conntrack := &recorder{}
	r := newRig(t, withConsumers([]string{"conntrack"}, conntrack)).open()
	r.addWeb("web", "10.96.0.50", "10.200.0.1")
	r.step(t)
	r.backend.FailCall(1, errKernel)
	r.SetEndpointSlice(slice("web", "10.200.0.2"))
	if err := r.Step(t.Context()); !errors.Is(err, errKernel) {
		t.Fatalf("Step = %v, want %v", err, errKernel)
	}
	if len(conntrack.deltas) != 1 {
		t.Fatal("the consumer was called although the backend failed")
	}
	r.step(t)
	d := conntrack.last(t)
	if d.Full || !slices.Equal(changed(d), []string{"ns1/web:http IPv4"}) {
		t.Errorf("the consumer was given %v (full %v), want the change", changed(d), d.Full)
	}
}

func TestConsumerFails(t *testing.T) {
	conntrack, health := &recorder{}, &recorder{}
	r := newRig(t, withConsumers([]string{"conntrack", "health"}, conntrack, health)).open()
	r.addWeb("web", "10.96.0.50", "10.200.0.1")
	r.step(t)

	conntrack.err = errKernel
	r.SetEndpointSlice(slice("web", "10.200.0.2"))
	err := r.Step(t.Context())
	if !errors.Is(err, errKernel) || err.Error() != "proxy: sync conntrack: kernel says no" {
		t.Errorf("Step = %v, want the consumer's error", err)
	}
	if d := health.last(t); !slices.Equal(changed(d), []string{"ns1/web:http IPv4"}) {
		t.Errorf("the next consumer was given %v, want the change", changed(d))
	}

	conntrack.err = nil
	backendCalls, healthCalls := len(r.backend.Calls()), len(health.deltas)
	r.step(t)
	if len(r.backend.Calls()) != backendCalls || len(health.deltas) != healthCalls {
		t.Error("consumers that have nothing to do were called")
	}
	d := conntrack.last(t)
	if !d.Full || len(d.Changes) != 1 || len(d.Changes[0].Before) != 2 {
		t.Errorf("the consumer's retry is %+v, want a full one with both versions", d)
	}
}

// One Service that the data plane refuses stops nothing else, and the other
// consumers see it as it was.
func TestPartialFailure(t *testing.T) {
	t.Run("#78 error isolation: nine of ten Services", func(t *testing.T) {
		flows := &recorder{}
		r := newRig(t, withConsumers([]string{"conntrack"}, flows)).open()
		names := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j"}
		for i, n := range names {
			r.addWeb(n, "10.96.0."+string(rune('0'+i)), "10.200.0.1")
		}
		r.step(t)
		r.backend.FailPort(key("d"), errKernel)
		for _, n := range names[:9] {
			r.SetEndpointSlice(slice(n, "10.200.0.2"))
		}
		r.DeleteService(name("j"))
		if err := r.Step(t.Context()); !errors.Is(err, errKernel) {
			t.Fatalf("Step = %v, want %v", err, errKernel)
		}
		if res, _ := r.last(t).Backend(); res.Failed != 1 || res.Changes != 10 {
			t.Errorf("result %+v, want 1 of 10 failed", res)
		}
		for i := range names[:9] {
			want := "10.200.0.2:8080"
			if i == 3 {
				want = "10.200.0.1:8080"
			}
			r.wantEndpoints(t, "10.96.0."+string(rune('0'+i))+":80", want)
		}
		if r.dial("10.96.0.9:80").Verdict != plan.Pass {
			t.Error("the deleted Service is still there")
		}
		held := flows.last(t).New.Port(key("d"))
		if held.Cluster[0].String() != "10.200.0.1:8080" {
			t.Errorf("the consumer sees %v, want the old endpoint", held.Cluster)
		}
		if !slices.Contains(changed(flows.last(t)), "ns1/j:http IPv4") || len(flows.last(t).Changes) != 9 {
			t.Errorf("the consumer was given %v, want all but d", changed(flows.last(t)))
		}

		r.backend.FailPort(key("d"), nil)
		r.step(t)
		if got := changed(r.lastDelta(t)); !slices.Equal(got, []string{"ns1/d:http IPv4"}) || r.lastDelta(t).Full {
			t.Errorf("the retry has %v, want only the failed one", got)
		}
		if got := changed(flows.last(t)); !slices.Equal(got, []string{"ns1/d:http IPv4"}) {
			t.Errorf("the consumer was then given %v, want the failed one", got)
		}
		r.wantInPlace(t)
	})
}

func TestPartialFailureOfANewAndADeletedService(t *testing.T) {
	flows := &recorder{}
	r := newRig(t, withConsumers([]string{"conntrack"}, flows)).open()
	r.addWeb("old", "10.96.0.1", "10.200.0.1")
	r.step(t)
	r.backend.FailPort(key("old"), errKernel)
	r.backend.FailPort(key("new"), errKernel)
	r.DeleteService(name("old"))
	r.addWeb("new", "10.96.0.2", "10.200.0.1")
	for range 2 { // the second time as a retry
		if err := r.Step(t.Context()); !errors.Is(err, errKernel) {
			t.Fatalf("Step = %v, want %v", err, errKernel)
		}
		if round := r.last(t); round.Services != 2 || round.Endpoints != 1 {
			t.Errorf("round %+v, want the failed Services in it", round)
		}
		shown := flows.last(t).New
		if shown.Port(key("old")) == nil || shown.Port(key("new")) != nil {
			t.Errorf("the consumer sees\n%s\nwant the old Service only", shown)
		}
	}
	r.wantEndpoints(t, "10.96.0.1:80", "10.200.0.1:8080")
	r.backend.FailPort(key("old"), nil)
	r.backend.FailPort(key("new"), nil)
	r.step(t)
	r.wantInPlace(t)
	if shown := flows.last(t).New; shown.String() != r.Plan().String() {
		t.Errorf("the consumer sees\n%s\nwant\n%s", shown, r.Plan())
	}
}

// A listener notes the calls that a health check gets.
type listener struct {
	recorder

	mu    sync.Mutex
	heard []string
	since time.Time // as healthcheck counts
}

func (l *listener) note(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, what)
}

func (l *listener) Queued() {
	l.note("queued")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.since.IsZero() {
		l.since = time.Now()
	}
}

func (l *listener) Updated() {
	l.note("updated")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.since = time.Time{}
}

// late reports whether something has waited for a timeout.
func (l *listener) late(timeout time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.since.IsZero() && time.Since(l.since) >= timeout
}

func (l *listener) want(t *testing.T, want ...string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !slices.Equal(l.heard, want) {
		t.Errorf("heard %v, want %v", l.heard, want)
	}
	l.heard = nil
}

func TestListener(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		health := &listener{}
		r := newRig(t, runner(time.Second, 30*time.Second, time.Hour), func(o *proxy.Options) {
			o.Consumers = []proxy.Consumer{{Name: "health", Syncer: health}}
		})
		r.run(t)
		synctest.Wait()
		health.want(t, "updated")

		r.addWeb("web", "10.96.0.50", "10.200.0.1")
		synctest.Wait()
		health.want(t) // before the gates are open nothing waits
		r.open()
		synctest.Wait()
		r.addWeb("web", "10.96.0.50", "10.200.0.1")
		time.Sleep(5 * time.Second)
		health.want(t, "queued", "updated", "queued", "updated")

		r.backend.FailCall(1, errKernel)
		r.SetEndpointSlice(slice("web", "10.200.0.2"))
		synctest.Wait()
		health.want(t, "queued", "queued")
		time.Sleep(31 * time.Second)
		health.want(t, "updated")

		r.backend.FailPort(key("web"), errKernel)
		r.SetEndpointSlice(slice("web", "10.200.0.3"))
		synctest.Wait()
		health.want(t, "queued", "queued")
		r.backend.FailPort(key("web"), nil)
		time.Sleep(31 * time.Second)
		health.want(t, "updated")

		r.slow(2 * time.Second)
		r.SetEndpointSlice(slice("web", "10.200.0.4"))
		time.Sleep(1500 * time.Millisecond)
		r.SetEndpointSlice(slice("web", "10.200.0.5"))
		time.Sleep(1600 * time.Millisecond)
		health.want(t, "queued", "queued", "updated", "queued")
	})
}
