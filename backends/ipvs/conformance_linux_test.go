package ipvs_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A prepared backend sets the kernel's switches of the node before it does anything else,
// and shows what it made when a scenario fails.
type prepared struct {
	*ipvs.FaultyBackend

	done bool
}

var (
	_ backendtest.Faulter = (*prepared)(nil)
	_ backendtest.Imager  = (*prepared)(nil)
)

func (p *prepared) Sync(ctx context.Context, d *plan.Delta) error {
	if !p.done {
		if _, err := p.Prepare(ctx); err != nil {
			return err
		}
		p.done = true
	}
	return p.FaultyBackend.Sync(ctx, d)
}

func (*prepared) Dump(ctx context.Context) string {
	var all strings.Builder
	for _, args := range [][]string{{"nft", "list", "ruleset"}, {"ipvsadm", "-Ln"}, {"ip", "route", "show", "table", "local", "proto", "86"}} {
		out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
		all.Write(out)
		if err != nil {
			all.WriteString(err.Error())
		}
	}
	return all.String()
}

func TestConformance(t *testing.T) {
	k, err := ipvs.Open()
	if err != nil {
		require(t, err)
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	backendtest.Run(t, backendtest.Config{
		New: func(t *testing.T) backends.Backend {
			t.Helper()
			b, err := ipvs.NewFaulty(ipvs.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			})
			return &prepared{FaultyBackend: b}
		},
		Limits: []backendtest.Limit{
			backendtest.NoLoopbackNodePorts, backendtest.BoundAddresses, backendtest.LongAffinity, backendtest.NoUDPDrain,
		},
	})
}
