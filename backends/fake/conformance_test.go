package fake_test

import (
	"context"
	"testing"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/backends/fake"
)

// An imaged backend shows what is in place.
type imaged struct{ *fake.Backend }

func (i imaged) Dump(context.Context) string { return i.Plan().String() }

func (i imaged) Image(context.Context) (string, error) { return i.Plan().String(), nil }

func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Config{Node: func(*testing.T) func(*testing.T) backends.Backend {
		b := &fake.Backend{}
		return func(*testing.T) backends.Backend {
			b = b.Restart()
			return imaged{b}
		}
	}})
}
