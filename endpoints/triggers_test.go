package endpoints_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipkit/vipkit/endpoints"
)

// triggered returns the slice with the time of its cause.
func triggered(s *discoveryv1.EndpointSlice, at string) *discoveryv1.EndpointSlice {
	s.Annotations = map[string]string{triggerAnnotation: at}
	return s
}

// after returns the time that is d after now as text.
func after(d time.Duration) string { return time.Now().Add(d).Format(time.RFC3339Nano) }

// delays returns the trigger times of a Service relative to start.
func delays(tr *endpoints.EndpointsChangeTracker, service string, start time.Time) []time.Duration {
	var out []time.Duration
	for _, at := range tr.Pending().Triggers[name(service)] {
		out = append(out, at.Sub(start))
	}
	return out
}

// TestTriggers runs every case on a tracker that is made at the start of the
// bubble; times are relative to that.
func TestTriggers(t *testing.T) {
	const ns, s = time.Nanosecond, time.Second
	slice := func(name string, at string, addrs ...string) *discoveryv1.EndpointSlice {
		return triggered(newSlice(name, "svc", ready(addrs...)...), at)
	}
	tests := []struct {
		name   string
		events func(tr *endpoints.EndpointsChangeTracker)
		want   []time.Duration
	}{
		{"C11 after the start, with nanoseconds", func(tr *endpoints.EndpointsChangeTracker) {
			tr.Set(slice("s1", after(s+ns), "10.0.0.1"))
		}, []time.Duration{s + ns}},
		{"C12 before the start", func(tr *endpoints.EndpointsChangeTracker) {
			tr.Set(slice("s1", after(-ns), "10.0.0.1"))
			tr.Set(slice("s2", after(0), "10.0.0.2"))
		}, nil},
		{"C13 not a time", func(tr *endpoints.EndpointsChangeTracker) {
			if _, errs := tr.Set(slice("s1", "yesterday", "10.0.0.1")); len(errs) > 0 {
				t.Errorf("problems %v, want none", errs)
			}
		}, nil},
		{"C14 deletion of another slice keeps them", func(tr *endpoints.EndpointsChangeTracker) {
			tr.Set(newSlice("s3", "svc", ready("10.0.0.3")...))
			tr.Set(slice("s1", after(1*s), "10.0.0.1"))
			tr.Set(slice("s2", after(2*s), "10.0.0.2"))
			tr.Delete(name("s3"))
		}, []time.Duration{1 * s, 2 * s}},
		{"C15 three updates of one slice, oldest first", func(tr *endpoints.EndpointsChangeTracker) {
			tr.Set(slice("s1", after(1*s), "10.0.0.1"))
			tr.Set(slice("s1", after(3*s), "10.0.0.2"))
			tr.Set(slice("s1", after(2*s), "10.0.0.3"))
		}, []time.Duration{1 * s, 2 * s, 3 * s}},
		{"no change, no time", func(tr *endpoints.EndpointsChangeTracker) {
			tr.Set(slice("s1", after(1*s), "10.0.0.1"))
			tr.Set(slice("s1", after(2*s), "10.0.0.1"))
		}, []time.Duration{1 * s}},
		{"the last endpoint goes", func(tr *endpoints.EndpointsChangeTracker) {
			tr.Set(slice("s1", after(1*s), "10.0.0.1"))
			tr.Set(slice("s1", after(2*s)))
		}, []time.Duration{1 * s, 2 * s}},
		{"an empty slice of another Service is no cause", func(tr *endpoints.EndpointsChangeTracker) {
			tr.Set(newSlice("s1", "other", ready("10.0.0.1")...))
			tr.Set(slice("s2", after(1*s), "10.0.0.2"))
			tr.Set(slice("s1", after(2*s)))
		}, []time.Duration{1 * s}},
		{"a slice that moves in", func(tr *endpoints.EndpointsChangeTracker) {
			tr.Set(triggered(newSlice("s1", "other", ready("10.0.0.1")...), after(1*s)))
			tr.Set(slice("s1", after(2*s), "10.0.0.1"))
		}, []time.Duration{2 * s}},
		{"a list", func(tr *endpoints.EndpointsChangeTracker) {
			tr.Replace([]*discoveryv1.EndpointSlice{slice("s1", after(2*s), "10.0.0.1"), slice("s2", after(1*s), "10.0.0.2")})
		}, []time.Duration{1 * s, 2 * s}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, tr := time.Now(), load(t)
				tt.events(tr)
				if got := delays(tr, "svc", start); !slices.Equal(got, tt.want) {
					t.Errorf("got %v, want %v", got, tt.want)
				}
			})
		})
	}
}

func TestTriggersAreTakenOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const s = time.Second
		start, tr := time.Now(), load(t)
		check := func(want ...time.Duration) {
			t.Helper()
			if got := delays(tr, "svc", start); !slices.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
		}
		tr.Set(triggered(newSlice("s1", "svc", ready("10.0.0.1")...), after(1*s)))
		tr.Pending()
		tr.Set(triggered(newSlice("s1", "svc", ready("10.0.0.2")...), after(2*s)))
		check(1*s, 2*s)
		tr.Take()
		check()
		tr.Set(newSlice("s1", "svc", ready("10.0.0.3")...))
		check()
	})
}
