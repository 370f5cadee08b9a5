package backendtest_test

import (
	"context"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"testing"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A node is a data plane of ports that outlives its process.
type node struct{ table map[plan.Key]*plan.Port }

// A careless backend has a fault that packets do not meet before the end of a process.
type careless struct {
	*node

	fault string
	base  *plan.Plan
}

func (c *careless) Sync(_ context.Context, d *plan.Delta) error {
	if d.Full && c.fault != "stale" {
		clear(c.table)
	}
	for _, ch := range d.Changes {
		if ch.After != nil {
			c.table[ch.Key] = ch.After
		} else {
			delete(c.table, ch.Key)
		}
	}
	c.base = d.New
	return nil
}

func (c *careless) Cleanup(context.Context) error {
	if c.fault != "cleanup" {
		clear(c.table)
	}
	return nil
}

func (c *careless) Trace(packet plan.Packet) plan.Trace {
	all := maps.Clone(c.table)
	for port := range c.base.All() {
		if all[port.Key] == nil {
			all[port.Key] = nil
		}
	}
	return c.base.Hold(all).Trace(packet)
}

// TestPlanted is run by TestSuiteFindsFaults, in a process of its own.
func TestPlanted(t *testing.T) {
	fault, planted := os.LookupEnv("VIPKIT_PLANTED_FAULT")
	if !planted {
		t.Skip("it is run by TestSuiteFindsFaults")
	}
	backendtest.Run(t, backendtest.Config{Node: func(*testing.T) func(*testing.T) backends.Backend {
		n := &node{map[plan.Key]*plan.Port{}}
		return func(*testing.T) backends.Backend { return &careless{node: n, fault: fault} }
	}})
}

// A Cleanup that does nothing and a Full Sync that leaves stale frontends fail nearly all scenarios; without a fault none fails.
func TestSuiteFindsFaults(t *testing.T) {
	for fault, atLeast := range map[string]int{"": 0, "cleanup": 90, "stale": 90} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPlanted$", "-test.v", "-test.timeout=5m")
			cmd.Env = append(os.Environ(), "VIPKIT_PLANTED_FAULT="+fault)
			out, err := cmd.CombinedOutput()
			if fault == "" && err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			bad := len(regexp.MustCompile(`(?m)^ {4}--- FAIL: TestPlanted/[^/ ]+ `).FindAll(out, -1))
			all := bad + len(regexp.MustCompile(`(?m)^ {4}--- PASS: TestPlanted/[^/ ]+ `).FindAll(out, -1))
			t.Logf("%d of %d scenarios fail", bad, all)
			if all < 100 || 100*bad < atLeast*all || atLeast == 0 && bad > 0 {
				t.Errorf("%d of %d scenarios fail, want %d %%", bad, all, atLeast)
			}
		})
	}
}
