package backendtest_test

import (
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/backends/fake"
)

// The test of a backend whose data plane is the kernel.
func ExampleRun() {
	newBackend := func(*testing.T) backends.Backend { return new(fake.Backend) } // yours
	testConformance := func(t *testing.T) {
		t.Helper()
		backendtest.Run(t, backendtest.Config{New: newBackend})
	}
	_ = testConformance // go test calls it
}

// The test of a backend with a data plane of its own, which outlives its processes.
func ExampleRun_node() {
	testConformance := func(t *testing.T) {
		t.Helper()
		backendtest.Run(t, backendtest.Config{Node: func(*testing.T) func(*testing.T) backends.Backend {
			last := &fake.Backend{}
			return func(*testing.T) backends.Backend {
				last = last.Restart()
				return last
			}
		}})
	}
	_ = testConformance // go test calls it
}

// Scenarios can be read, also by people.
func ExampleScenarios() {
	text, err := fs.ReadFile(backendtest.Scenarios(), "clusterip-one-endpoint.txtar")
	if err != nil {
		fmt.Println(err)
		return
	}
	_, expect, _ := strings.Cut(string(text), "-- expect --\n")
	fmt.Print(expect)
	// Output:
	// p      -> vip:80 => c kept
	// node   -> vip:80 => c masqueraded
	// client -> vip:80 => c masqueraded
}
