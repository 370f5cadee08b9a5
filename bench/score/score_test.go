package score

import (
	"os"
	"testing"

	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/bench/wholeproxy"
)

func TestMain(m *testing.M) { netlab.Main(m) }

// TestScore has a subtest for each proxy with one for each scenario in it, whose names are the columns and lines of the
// table in docs/conformance.md. That a proxy fails a scenario is a result, so `make score` reads the output instead of
// the exit status. Proxies with IPVS are played where the kernel has it: `make score-vm`.
func TestScore(t *testing.T) {
	type proxy struct {
		name   string
		make   func() backendtest.Proxy
		limits []backendtest.Limit
	}
	rules := []backendtest.Limit{backendtest.NoLoopbackNodePorts, backendtest.StaleUDPEnds}
	proxies := []proxy{
		{"vipkit-nftables", func() backendtest.Proxy { return &wholeproxy.Vipkit{Plane: "nftables"} }, rules},
		{"vipkit-iptables", func() backendtest.Proxy { return &wholeproxy.Vipkit{Plane: "iptables"} }, rules},
		{"kube-proxy-nftables", func() backendtest.Proxy { return &wholeproxy.KubeProxy{Plane: "nftables"} }, rules},
		{"kube-proxy-iptables", func() backendtest.Proxy { return &wholeproxy.KubeProxy{Plane: "iptables"} }, rules},
	}
	if _, err := os.Stat("/proc/net/ip_vs"); err == nil {
		bound := []backendtest.Limit{backendtest.NoLoopbackNodePorts, backendtest.BoundAddresses, backendtest.LongAffinity, backendtest.NoUDPDrain}
		proxies = append(proxies,
			proxy{"vipkit-ipvs", func() backendtest.Proxy { return &wholeproxy.Vipkit{Plane: "ipvs"} }, bound},
			proxy{"kube-proxy-ipvs", func() backendtest.Proxy { return &wholeproxy.KubeProxy{Plane: "ipvs"} }, bound})
	}
	for _, p := range proxies {
		t.Run(p.name, func(t *testing.T) {
			backendtest.Run(t, backendtest.Config{NewProxy: func(*testing.T) backendtest.Proxy { return p.make() }, Limits: p.limits})
		})
	}
}
