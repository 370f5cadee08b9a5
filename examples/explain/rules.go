package main

import (
	"fmt"

	"github.com/vipkit/vipkit/backends/iptables"
	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/backends/nftables"
	"github.com/vipkit/vipkit/proxy/plan"
)

// The values of -rules, which are the names of packages below backends.
const (
	backendNFTables = "nftables"
	backendIPTables = "iptables"
	backendIPVS     = "ipvs"
)

// renderRules returns the rules that a backend would load for p, as text.
func renderRules(backend string, p *plan.Plan) (string, error) {
	switch backend {
	case backendNFTables:
		return nftables.Render(p, nftables.Options{})
	case backendIPTables:
		return iptables.Render(p, iptables.Options{})
	case backendIPVS:
		return ipvs.Render(p, ipvs.Options{})
	default:
		return "", fmt.Errorf("rules of backend %q: no such backend", backend)
	}
}
