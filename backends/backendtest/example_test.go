package backendtest_test

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/vipkit/vipkit/backends/backendtest"
)

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
