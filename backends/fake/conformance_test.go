package fake_test

import (
	"testing"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/backends/fake"
)

func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Config{
		New: func(*testing.T) backends.Backend { return new(fake.Backend) },
	})
}
