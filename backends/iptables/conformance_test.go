package iptables_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/backends/iptables"
)

// A dumping backend shows its rules when a scenario fails.
type dumping struct {
	*iptables.Backend
	program string
}

func (d dumping) Dump(ctx context.Context) string {
	var all strings.Builder
	for _, name := range []string{"iptables-save", "ip6tables-save"} {
		out, err := exec.CommandContext(ctx, d.program, name).CombinedOutput()
		all.Write(out)
		if err != nil {
			all.WriteString(err.Error())
		}
	}
	return all.String()
}

func TestConformance(t *testing.T) {
	for _, v := range []iptables.Variant{iptables.NFT, iptables.Legacy} {
		t.Run(string(v), func(t *testing.T) {
			backendtest.Run(t, backendtest.Config{
				New: func(t *testing.T) backends.Backend {
					t.Helper()
					b, err := iptables.New(iptables.Options{Variant: v})
					if err != nil {
						t.Fatal(err)
					}
					return dumping{b, "xtables-" + string(v) + "-multi"}
				},
				Limits: []backendtest.Limit{backendtest.NoLoopbackNodePorts},
			})
		})
	}
}
