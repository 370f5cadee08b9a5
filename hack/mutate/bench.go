package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A test is one that can be run alone: of a package, or a scenario of its suite.
type test struct {
	name string
	took time.Duration
	// reached has the mutants that the test comes across. One that it does not reach it cannot notice.
	reached map[int]bool
}

// A bench is a compiled stage with its tests, quickest first.
type bench struct {
	stage
	binary string
	tests  []test
	broken []string // fail with every mutant asleep, so they judge nothing
}

// A lab compiles stages once and measures each of their tests.
type lab struct {
	dir     string
	overlay string
	jobs    int
	match   *regexp.Regexp // scenarios
	benches map[stage]*bench
}

// prepare compiles what a target needs and finds out which test reaches which mutant.
func (l *lab) prepare(ctx context.Context, t target) error {
	for _, s := range t.stages {
		key := stage{dir: s.dir, suite: s.suite}
		if l.benches[key] != nil {
			continue
		}
		b := &bench{stage: s}
		if err := l.compile(ctx, b); err != nil {
			return err
		}
		names, err := l.names(ctx, b)
		if err != nil {
			return err
		}
		l.measure(ctx, b, names)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if len(b.tests) == 0 {
			return fmt.Errorf("no test of %s passes: %s", s.dir, strings.Join(b.broken, ", "))
		}
		l.benches[key] = b
	}
	return nil
}

func (l *lab) compile(ctx context.Context, b *bench) error {
	b.binary = filepath.Join(l.dir, strings.ReplaceAll(b.dir, "/", "-")+".test")
	if _, err := os.Stat(b.binary); err == nil {
		return nil
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-overlay", l.overlay, "-o", b.binary, "./"+b.dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("tests of %s: %w\n%s", b.dir, err, out)
	}
	return nil
}

// names lists the tests of a stage.
func (l *lab) names(ctx context.Context, b *bench) ([]string, error) {
	if b.suite {
		files, err := filepath.Glob("backends/backendtest/testdata/*.txtar")
		var names []string
		for _, f := range files {
			if name := strings.TrimSuffix(filepath.Base(f), ".txtar"); l.match.MatchString(name) {
				names = append(names, name)
			}
		}
		return names, err
	}
	out, err := exec.CommandContext(ctx, b.binary, "-test.list", "^(Test|Fuzz|Example)").Output()
	if err != nil {
		return nil, fmt.Errorf("tests of %s: %w", b.dir, err)
	}
	names := strings.Fields(string(out))
	return slices.DeleteFunc(names, func(n string) bool { return n == "TestConformance" }), nil
}

// measure runs every test alone, with all mutants asleep.
func (l *lab) measure(ctx context.Context, b *bench, names []string) {
	var mu sync.Mutex
	var workers sync.WaitGroup
	queue := make(chan string)
	for n := range l.jobs {
		trace := filepath.Join(l.dir, fmt.Sprintf("trace-%d", n))
		workers.Go(func() {
			for name := range queue {
				t, ok := b.alone(ctx, name, trace)
				mu.Lock()
				if ok {
					b.tests = append(b.tests, t)
				} else {
					b.broken = append(b.broken, name)
				}
				mu.Unlock()
			}
		})
	}
	for _, n := range names {
		queue <- n
	}
	close(queue)
	workers.Wait()
	slices.SortFunc(b.tests, func(a, b test) int { return int(a.took - b.took) })
}

// longest is how long one test may take.
const longest = time.Minute

func (b *bench) alone(ctx context.Context, name, trace string) (test, bool) {
	os.Remove(trace) //nolint:errcheck // perhaps there is none
	start := time.Now()
	out, err := b.run(ctx, []string{name}, longest, envTrace+"="+trace)
	t := test{name: name, took: time.Since(start), reached: map[int]bool{}}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s of %s fails without a fault and is left out: %v\n%s", name, b.dir, err, tail(out))
		return t, false
	}
	text, _ := os.ReadFile(trace) // none: it reaches nothing
	for id := range strings.FieldsSeq(string(text)) {
		if n, err := strconv.Atoi(id); err == nil {
			t.reached[n] = true
		}
	}
	return t, true
}

// errSlow is the end of tests that took longer than they may: a fault that makes a loop endless is noticed so.
var errSlow = errors.New("out of time")

// memory that a program may map, in KiB: a fault may make a loop that appends for ever.
const memory = 4 << 20

// run runs some tests until one fails.
func (b *bench) run(ctx context.Context, names []string, limit time.Duration, env ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errSlow)
	defer cancel()
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = regexp.QuoteMeta(n)
	}
	pattern := "^(" + strings.Join(quoted, "|") + ")$"
	if b.suite {
		pattern = "^TestConformance$/" + pattern
	}
	cmd := exec.CommandContext(ctx, "sh", "-c", fmt.Sprintf(`ulimit -v %d; exec "$@"`, memory), "sh",
		b.binary, "-test.run", pattern, "-test.failfast", "-test.short", "-test.timeout", (2 * limit).String())
	cmd.Dir = b.dir
	cmd.Env = append(os.Environ(), append(env, "VIPKIT_QUICK=1")...)
	cmd.WaitDelay = time.Second
	out, err := cmd.CombinedOutput()
	if err != nil && ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	return out, err
}

// tail returns the end of what a program said.
func tail(out []byte) []byte {
	const most = 2000
	return out[max(0, len(out)-most):]
}
