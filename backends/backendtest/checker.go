package backendtest

import (
	"testing"

	"github.com/vipkit/vipkit/backends"
)

// unchanged lets a Backend that is a [backends.Checker] compare the data plane with what it wrote:
// nobody else has changed it.
func (p *player) unchanged(t *testing.T, when string) {
	t.Helper()
	checker, ok := p.backend.(backends.Checker)
	if !ok {
		return
	}
	p.inNode(t, func() error {
		changed, err := checker.Check(t.Context())
		if len(changed) > 0 || err != nil {
			t.Errorf("%s Check = %q, %v, want no change and no error", when, changed, err)
		}
		bounded(t, changed)
		return nil
	})
}

// bounded expects that what Check returned fits into a log.
func bounded(t *testing.T, changed []string) {
	t.Helper()
	if n := len(changed); n > backends.MostChanged {
		t.Errorf("Check names %d changes, at most %d may be", n, backends.MostChanged)
	}
	for _, c := range changed {
		if c == "" || len(c) > backends.MostChangedText {
			t.Errorf("Check names a change by %d bytes, 1 to %d may be", len(c), backends.MostChangedText)
		}
	}
}
