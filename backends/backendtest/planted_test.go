package backendtest_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A node is a data plane of ports that outlives its process.
type node struct{ table map[plan.Key]*plan.Port }

// A careless backend has a fault that packets do not meet before the end of a process, or before something fails.
type careless struct {
	*node

	fault string
	base  *plan.Plan

	held   map[plan.Key]bool
	refuse map[plan.Key]error
	writes int // until the one that fails
	write  error
	read   error
}

func (c *careless) FailPort(k plan.Key, err error) { c.refuse[k] = err }

func (c *careless) FailWrite(n int, err error) { c.writes, c.write = n, err }

func (c *careless) FailRead(err error) { c.read = err }

func (c *careless) Check(context.Context) (changed []string, err error) {
	if c.fault == "check" && c.read != nil {
		return []string{"everything"}, nil
	}
	return nil, c.read
}

func (c *careless) Sync(_ context.Context, d *plan.Delta) error {
	if d.Full && c.read != nil {
		return c.read
	}
	if d.Full && c.fault != "stale" {
		maps.DeleteFunc(c.table, func(k plan.Key, _ *plan.Port) bool { return d.New.Port(k) == nil })
	}
	bad := make(map[plan.Key]error)
	for _, ch := range d.Changes {
		if c.writes--; c.writes == 0 && c.write != nil {
			if c.fault == "lost" {
				_ = c.write.Error()
				continue
			}
			return c.write
		}
		if err := c.refuse[ch.Key]; err != nil {
			bad[ch.Key] = err
			continue
		}
		c.put(ch, d.Full)
	}
	c.base = d.New
	if len(bad) == 0 {
		return nil
	}
	c.held = make(map[plan.Key]bool)
	for _, ch := range d.Changes {
		c.held[ch.Key] = bad[ch.Key] != nil
		if c.fault == "blame" {
			bad[ch.Key] = errors.New("one of these")
		}
	}
	return &plan.PartialError{Ports: bad}
}

// put writes a port.
func (c *careless) put(ch plan.Change, full bool) {
	if full && c.fault == "old" && c.table[ch.Key] != nil && ch.After != nil {
		return
	}
	if c.fault == "back" && c.held[ch.Key] {
		for _, old := range ch.Before {
			c.remove(old)
		}
	}
	delete(c.table, ch.Key)
	if ch.After != nil {
		c.table[ch.Key] = ch.After
	}
}

// remove removes whatever has an external IP that a port had, whoever it belongs to now.
func (c *careless) remove(old *plan.Port) {
	for _, fe := range old.Frontends {
		maps.DeleteFunc(c.table, func(_ plan.Key, p *plan.Port) bool {
			return p.Protocol == old.Protocol && slices.ContainsFunc(p.Frontends, func(f plan.Frontend) bool { return f.Addr == fe.Addr && f.Kind == plan.ExternalIP })
		})
	}
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
		return func(*testing.T) backends.Backend {
			return &careless{node: n, fault: fault, refuse: map[plan.Key]error{}}
		}
	}})
}

// A Cleanup that does nothing and a Full Sync that leaves stale frontends fail nearly all scenarios; one that leaves what it finds of a
// Service as it is fails those with changes. Without a fault none fails.
func TestSuiteFindsFaults(t *testing.T) {
	for fault, atLeast := range map[string]int{"": 0, "cleanup": 90, "stale": 90, "old": 20, "check": 90} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			out := runPlanted(t, fault)
			bad := len(regexp.MustCompile(`(?m)^ {4}--- FAIL: TestPlanted/[^/ ]+ `).FindAllString(out, -1))
			all := bad + len(regexp.MustCompile(`(?m)^ {4}--- PASS: TestPlanted/[^/ ]+ `).FindAllString(out, -1))
			t.Logf("%d of %d scenarios fail", bad, all)
			if all < 100 || 100*bad < atLeast*all || atLeast == 0 && strings.Contains(out, "--- FAIL") {
				t.Errorf("%d of %d scenarios fail, want %d %%\n%.2000s", bad, all, atLeast, out)
			}
		})
	}
}

// A repaired port that takes back what another has by now, a write that failed and is forgotten, and a PartialError that names
// bystanders are each found by a scenario with failures, and only by these.
func TestSuiteFindsFaultsAfterFailures(t *testing.T) {
	for fault, scenario := range map[string]string{
		"back": "held-port-gives-up-its-address", "lost": "every-write-fails", "blame": "one-of-several-is-refused",
	} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			out := runPlanted(t, fault)
			if !strings.Contains(out, "--- FAIL: TestPlanted/faults/"+scenario+" ") {
				t.Errorf("the scenario %s does not fail", scenario)
			}
			if bad := regexp.MustCompile(`(?m)^ {4}--- FAIL: TestPlanted/[^/ ]+ `).FindAllString(out, -1); len(bad) > 0 {
				t.Errorf("other scenarios fail: %v", bad)
			}
		})
	}
}

// runPlanted returns what the suite says about a backend with a fault.
func runPlanted(t *testing.T, fault string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestPlanted$", "-test.v", "-test.timeout=5m")
	cmd.Env = append(os.Environ(), "VIPKIT_PLANTED_FAULT="+fault)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return string(out)
}
