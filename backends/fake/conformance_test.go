package fake_test

import (
	"testing"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/backends/fake"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Config{Node: func(*testing.T) func(*testing.T) backends.Backend {
		b := &fake.Backend{}
		return func(*testing.T) backends.Backend {
			b = b.Restart()
			return b
		}
	}})
}
