package main

import (
	"fmt"

	"github.com/vipkit/vipkit/backends/nftables"
	"github.com/vipkit/vipkit/proxy/plan"
)

// backendNFTables is the value of -rules for package backends/nftables.
const backendNFTables = "nftables"

// renderRules returns the rules that a backend would load for p, as text.
func renderRules(backend string, p *plan.Plan) (string, error) {
	if backend != backendNFTables {
		return "", fmt.Errorf("rules of backend %q: no such backend", backend)
	}
	return nftables.Render(p, nftables.Options{})
}
