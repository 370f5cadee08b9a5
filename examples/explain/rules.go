package main

import (
	"fmt"

	"github.com/vipkit/vipkit/proxy/plan"
)

// backendNFTables is the value of -rules for package backends/nftables.
const backendNFTables = "nftables"

// renderRules returns the rules that a backend would load for p, as text.
func renderRules(backend string, p *plan.Plan) (string, error) {
	return "", fmt.Errorf("rules of backend %s: not built yet", backend)
}
