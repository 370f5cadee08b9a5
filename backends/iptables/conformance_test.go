package iptables

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/proxy/plan"
)

func TestConformance(t *testing.T) {
	for _, v := range []Variant{NFT, Legacy} {
		t.Run(string(v), func(t *testing.T) {
			backendtest.Run(t, backendtest.Config{
				New:    func(t *testing.T) backends.Backend { t.Helper(); return newConforming(t, v) },
				Limits: []backendtest.Limit{backendtest.NoLoopbackNodePorts},
			})
		})
	}
}

// A conforming backend shows its rules when a scenario fails, and its programs and its kernel fail as they are told to.
type conforming struct {
	*Backend
	faults *faults
}

func newConforming(t *testing.T, v Variant) backends.Backend {
	t.Helper()
	b, err := New(Options{Variant: v})
	if err != nil {
		t.Fatal(err)
	}
	f := &faults{runner: b.runner, kernel: b.kernel, backend: b, ports: make(map[plan.Key]error)}
	b.runner, b.kernel = faultyRunner{f.runner, f}, faultyKernel{f.kernel, f}
	return conforming{b, f}
}

func (c conforming) Dump(ctx context.Context) string {
	var all strings.Builder
	for _, name := range []string{"iptables-save", "ip6tables-save"} {
		out, err := exec.CommandContext(ctx, "xtables-"+string(c.opts.Variant)+"-multi", name).CombinedOutput()
		all.Write(out)
		if err != nil {
			all.WriteString(err.Error())
		}
	}
	return all.String()
}

// Image returns all rules, and our chains.
func (c conforming) Image(ctx context.Context) (string, error) {
	var out strings.Builder
	where := ""
	for line := range strings.Lines(c.Dump(ctx)) {
		switch {
		case line[0] == '*':
			where = line[1 : len(line)-1]
		case strings.HasPrefix(line, "-A "), strings.HasPrefix(line, ":VIPKIT"):
			rule, _, _ := strings.Cut(line, " [")
			fmt.Fprintln(&out, where, strings.TrimSpace(rule))
		}
	}
	return out.String(), nil
}

// Sync remembers what the ports that are refused shall be.
func (c conforming) Sync(ctx context.Context, d *plan.Delta) error {
	c.faults.plan = d.New
	return c.Backend.Sync(ctx, d)
}

func (c conforming) FailPort(k plan.Key, err error) { c.faults.ports[k] = err }

func (c conforming) FailWrite(n int, err error) { c.faults.commits, c.faults.write = n, err }

func (c conforming) FailRead(err error) { c.faults.read = err }

// faults are what does not work.
type faults struct {
	runner  runner
	kernel  kernel
	backend *Backend
	plan    *plan.Plan
	ports   map[plan.Key]error
	commits int // until the one that fails
	write   error
	read    error
}

// A faultyRunner fails at commits, as if the kernel did not take them, and to read.
type faultyRunner struct {
	runner
	faults *faults
}

func (r faultyRunner) save(ctx context.Context, f *family, t table) (string, error) {
	if r.faults.read != nil {
		return "", r.faults.read
	}
	return r.runner.save(ctx, f, t)
}

// restore restores what comes before the commit that fails.
func (r faultyRunner) restore(ctx context.Context, f *family, text string, try bool) error {
	if try {
		return r.runner.restore(ctx, f, text, try)
	}
	refused, err := r.faults.refused(ctx, f)
	if err != nil {
		return err
	}
	var good strings.Builder
	line := 0
	for part := range strings.SplitAfterSeq(text, "COMMIT\n") {
		err = nil
		for l := range strings.Lines(part) {
			line++
			if why := refused[r.faults.ruleOf(l)]; why != nil && err == nil {
				err = &refusal{line, why}
			}
		}
		if r.faults.commits--; r.faults.commits == 0 && part != "" && r.faults.write != nil {
			err = r.faults.write
		}
		if err != nil {
			break
		}
		good.WriteString(part)
	}
	if good.Len() == 0 {
		return err
	}
	return errors.Join(r.runner.restore(ctx, f, good.String(), false), err)
}

// refused returns the rules that make what is new in refused ports, as ruleOf names them.
func (f *faults) refused(ctx context.Context, fam *family) (map[string]error, error) {
	out := make(map[string]error)
	i := slices.IndexFunc(f.backend.families, func(t tables) bool { return t.dialect.ip == fam.ip })
	if i < 0 {
		return nil, nil // Cleanup
	}
	d := f.backend.families[i].dialect
	for k, why := range f.ports {
		if why == nil || f.plan.Port(k) == nil {
			continue
		}
		objects, err := d.Compile(f.plan, f.plan.Port(k), nil)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			switch {
			case o.Shared:
			case o.ID.kind == kindSite:
				match := d.trees[o.ID.in].match(site(o.ID.name), 8*len(o.ID.name))
				out[f.ruleOf("-A VIPKIT-D-X "+match+" "+o.Value.do)] = why
			default:
				for _, l := range o.Value.chain.text("VIPKIT") {
					out[f.ruleOf(l)] = why
				}
			}
		}
	}
	for t := range table(numTables) {
		text, err := f.runner.save(ctx, fam, t)
		if err != nil || len(out) == 0 {
			return nil, err
		}
		for l := range strings.Lines(text) {
			delete(out, f.ruleOf(l))
		}
	}
	return out, nil
}

// ruleOf returns a rule of ours without its comment, and its chain unless that is one of a tree; "" for other lines.
func (f *faults) ruleOf(line string) string {
	words := splitQuoted(strings.TrimSpace(line))
	if len(words) < 3 || words[0] != "-A" || !strings.HasPrefix(words[1], "VIPKIT-") {
		return ""
	}
	name := words[1]
	if ours := strings.TrimPrefix(name, "VIPKIT-"); isTreeChain(nat, ours) || isTreeChain(filter, ours) {
		name = "tree"
	}
	_, _, rule := cutDigest(words[2:])
	for i, w := range rule {
		rule[i] = strings.Replace(w, "@", "VIPKIT-", 1)
	}
	return name + " " + strings.Join(canonical(rule, "VIPKIT-"), " ")
}

// A faultyKernel fails to be read.
type faultyKernel struct {
	kernel
	faults *faults
}

func (k faultyKernel) generation() (uint32, error) {
	if k.faults.read != nil {
		return 0, k.faults.read
	}
	return k.kernel.generation()
}
