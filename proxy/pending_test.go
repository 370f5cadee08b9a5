package proxy_test

import (
	"errors"
	"testing"
)

func TestPending(t *testing.T) {
	r := newRig(t).open()
	want := func(t *testing.T, services, endpoints int) {
		t.Helper()
		if s, e := r.Pending(); s != services || e != endpoints {
			t.Errorf("Pending() = %d, %d, want %d, %d", s, e, services, endpoints)
		}
	}
	t.Run("fault F33 what changed counts until it is written", func(t *testing.T) {
		want(t, 0, 0)
		r.SetService(svc("web", "10.96.0.10"))
		r.SetEndpointSlice(slice("web", "10.200.0.1"))
		want(t, 1, 1)
		r.backend.FailCall(1, errors.New("no"))
		if err := r.Step(t.Context()); err == nil {
			t.Fatal("the round did not fail")
		}
		want(t, 1, 1)
		r.step(t)
		want(t, 0, 0)
	})
	t.Run("fault F33 what changes nothing does not count", func(t *testing.T) {
		again := svc("web", "10.96.0.10")
		again.Annotations = map[string]string{"seen": "yes"}
		r.SetService(again)
		r.SetEndpointSlice(slice("web", "10.200.0.1"))
		want(t, 0, 0)
	})
}
