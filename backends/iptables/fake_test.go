package iptables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A fakeKernel has tables in memory, and is as strict as the kernel: a table is committed
// as a whole or not at all, a rule's target must exist, and a chain that is deleted
// must be empty and unused. It is a runner and a kernel.
type fakeKernel struct {
	tables  map[string]map[string][]string // "PROGRAM TABLE" -> chain -> rules
	inputs  []string                       // of every restore
	saves   int
	fail    func(table string, commit int) error // before a commit; nil: never
	commits int
	number  uint32 // generation
	sysctls map[string]string
	log     []string // sysctls and commits in order

	failSave error
	refuse   string                   // what no rule may have; "": all are taken
	failTry  func(text string) bool   // rules that are not understood; nil: none
	print    func(rule string) string // how a rule is printed; nil: as it was restored
}

func newFakeKernel() *fakeKernel {
	k := &fakeKernel{
		tables: make(map[string]map[string][]string), number: 1,
		sysctls: map[string]string{routeLocalnet: "0", beLiberal: "0"},
	}
	for _, f := range families() {
		k.tables[f.command+" nat"] = map[string][]string{"PREROUTING": nil, "INPUT": nil, "OUTPUT": nil, "POSTROUTING": nil}
		k.tables[f.command+" filter"] = map[string][]string{"INPUT": nil, "FORWARD": nil, "OUTPUT": nil}
	}
	return k
}

func (k *fakeKernel) backend(tb testing.TB, o Options) *Backend {
	tb.Helper()
	o.Variant = NFT
	b, err := New(o)
	if err != nil {
		tb.Fatal(err)
	}
	b.runner, b.kernel = k, k
	return b
}

func (k *fakeKernel) version(context.Context, *family) (string, error) {
	return "iptables v1.8.9 (nf_tables)", nil
}

func (k *fakeKernel) save(_ context.Context, f *family, t table) (string, error) {
	if k.saves++; k.failSave != nil {
		return "", k.failSave
	}
	return k.dump(f.command + " " + t.String()), nil
}

// dump prints a table as iptables-save does.
func (k *fakeKernel) dump(name string) string {
	var chains, rules strings.Builder
	for _, c := range slices.Sorted(maps.Keys(k.tables[name])) {
		policy := "ACCEPT"
		if strings.Contains(c, "-") {
			policy = "-"
		}
		fmt.Fprintf(&chains, ":%s %s [0:0]\n", c, policy)
		for _, r := range k.tables[name][c] {
			if k.print != nil {
				r = k.print(r)
			}
			fmt.Fprintf(&rules, "-A %s %s\n", c, r)
		}
	}
	return "*" + name + "\n" + chains.String() + rules.String() + "COMMIT\n"
}

// all prints all tables.
func (k *fakeKernel) all() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(k.tables)) {
		b.WriteString(k.dump(name))
	}
	return b.String()
}

func (k *fakeKernel) restore(_ context.Context, f *family, text string, try bool) error {
	if try && k.failTry != nil && k.failTry(text) {
		return errors.New("not understood")
	}
	if try {
		return nil
	}
	k.inputs = append(k.inputs, text)
	ends := 0 // the line of the last COMMIT
	for part := range strings.SplitSeq(strings.TrimSuffix(text, "COMMIT\n"), "COMMIT\n") {
		ends += strings.Count(part, "\n") + 1
		head, body, _ := strings.Cut(part, "\n")
		name := f.command + " " + head[1:]
		k.commits++
		if k.fail != nil {
			if err := k.fail(head[1:], k.commits); err != nil {
				return err
			}
		}
		next := make(map[string][]string)
		for c, rules := range k.tables[name] {
			next[c] = slices.Clone(rules)
		}
		for line := range strings.Lines(body) {
			if k.refuse != "" && strings.Contains(line, k.refuse) {
				return &refusal{ends - 1, fmt.Errorf("%s: %w", name, errFake)}
			}
			if err := apply(next, strings.TrimSuffix(line, "\n")); err != nil {
				return &refusal{ends - 1, fmt.Errorf("%s: %q: %w", name, line, err)}
			}
		}
		if err := consistent(next); err != nil {
			return &refusal{ends, fmt.Errorf("%s: %w", name, err)}
		}
		k.tables[name] = next
		k.number++
		k.log = append(k.log, "commit "+name)
	}
	return nil
}

func apply(chains map[string][]string, line string) error {
	if rest, ok := strings.CutPrefix(line, ":"); ok {
		name, _, _ := strings.Cut(rest, " ")
		chains[name] = nil
		return nil
	}
	op, rest, _ := strings.Cut(line, " ")
	name, rule, _ := strings.Cut(rest, " ")
	rules, ok := chains[name]
	if !ok {
		return errors.New("no such chain")
	}
	switch op {
	case "-A":
		chains[name] = append(rules, rule)
	case "-I":
		chains[name] = slices.Insert(rules, 0, strings.TrimPrefix(rule, "1 "))
	case "-D":
		i := slices.Index(rules, rule)
		if i < 0 {
			return errors.New("no such rule")
		}
		chains[name] = slices.Delete(rules, i, i+1)
	case "-X":
		if len(rules) > 0 {
			return errors.New("chain is not empty")
		}
		delete(chains, name)
	default:
		return errors.New("unknown command")
	}
	return nil
}

// consistent looks for targets that do not exist.
func consistent(chains map[string][]string) error {
	for name, rules := range chains {
		for _, r := range rules {
			_, target := inspect(r)
			if _, ok := chains[target]; strings.Contains(target, "-") && !ok {
				return fmt.Errorf("chain %s: no target %s", name, target)
			}
		}
	}
	return nil
}

func (k *fakeKernel) generation() (uint32, error) { return k.number, nil }

func (k *fakeKernel) sysctl(name string) (string, error) {
	v, ok := k.sysctls[name]
	if !ok {
		return "", errNoSysctl
	}
	return v, nil
}

var errNoSysctl = errors.New("no such sysctl")

func (k *fakeKernel) setSysctl(name, value string) error {
	if _, err := k.sysctl(name); err != nil {
		return err
	}
	k.sysctls[name] = value
	k.log = append(k.log, name+"="+value)
	return nil
}

func (k *fakeKernel) legacyTables(*family) ([]string, error) { return nil, nil }

// A story is a node whose Services a test changes step by step.
type story struct {
	tb     testing.TB
	plan   *plan.Plan
	cursor plan.Cursor
}

func newStory(tb testing.TB, cfg plan.Config) *story {
	tb.Helper()
	return &story{tb: tb, plan: plan.New(cfg)}
}

// try brings a change to a backend.
func (s *story) try(b *Backend, in plan.Input) error {
	next, diff := s.plan.Update(in)
	s.plan = next
	s.cursor.Note(diff)
	d := s.cursor.Delta(next)
	if d == nil {
		return nil
	}
	err := b.Sync(s.tb.Context(), d)
	s.cursor.Done(d, err)
	return err
}

// sync brings a change to a backend, which must succeed.
func (s *story) sync(b *Backend, in plan.Input) backends.Stats {
	s.tb.Helper()
	if err := s.try(b, in); err != nil {
		s.tb.Fatal(err)
	}
	return b.LastStats()
}

// restart brings everything to a backend that has just started.
func (s *story) restart(b *Backend) backends.Stats {
	s.tb.Helper()
	s.cursor = plan.Cursor{}
	return s.sync(b, plan.Input{})
}

// fresh returns what a fresh kernel has after a first Sync.
func (s *story) fresh() string {
	s.tb.Helper()
	k := newFakeKernel()
	if err := k.backend(s.tb, Options{}).Sync(s.tb.Context(), plan.Full(s.plan)); err != nil {
		s.tb.Fatal(err)
	}
	return k.all()
}

// equal fails the test if two texts differ, and shows the first lines that do.
func equal(tb testing.TB, got, want string) {
	tb.Helper()
	if got == want {
		return
	}
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			tb.Fatalf("line %d:\n got %s\nwant %s", i+1, g[i], w[i])
		}
	}
	tb.Fatalf("got %d lines, want %d", len(g), len(w))
}

// A liar says that it has restored, and has not, for as long as it lies.
type liar struct {
	*fakeKernel
	lying *bool
}

func (l liar) restore(ctx context.Context, f *family, text string, try bool) error {
	if *l.lying {
		return nil
	}
	return l.fakeKernel.restore(ctx, f, text, try)
}
