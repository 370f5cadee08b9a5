package nftables_test

import (
	"context"
	"os/exec"
	"testing"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/backends/nftables"
)

// A dumping backend shows its rules when a scenario fails.
type dumping struct{ *nftables.Backend }

func (dumping) Dump(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "nft", "list", "ruleset").CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}

func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Config{
		New: func(t *testing.T) backends.Backend {
			t.Helper()
			b, err := nftables.New(nftables.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return dumping{b}
		},
		Limits: []backendtest.Limit{backendtest.NoLoopbackNodePorts},
	})
}
