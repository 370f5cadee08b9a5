// Mutate shows that the conformance suite notices faults of the nftables backend: it
// makes one after the other, each a small change of the source as the compiler sees it,
// and runs the scenarios, which must fail.
//
//	go run ./hack/mutate [-run NAME] [-scenarios REGEXP] [-jobs N] [-v]
//
// It needs what the kernel tests need. For each fault it runs the scenarios that are most
// likely to notice; -scenarios . runs all. No file is changed (go test -overlay). It
// exits with 1 if a fault went unnoticed, and with 2 if one could not be made.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"
)

const target = "backends/nftables"

// errUnnoticed says that the suite passed in spite of a fault.
var errUnnoticed = errors.New("not noticed")

func main() {
	name := flag.String("run", "", "only faults whose name matches")
	scenarios := flag.String("scenarios", "", "scenarios to run instead of the fault's own")
	jobs := flag.Int("jobs", runtime.GOMAXPROCS(0), "faults to make at a time")
	verbose := flag.Bool("v", false, "show what the tests say")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	r := runner{scenarios: *scenarios, verbose: *verbose}
	code := 0
	for done := range r.all(ctx, chosen(*name), max(1, *jobs)) {
		code = max(code, done.print())
	}
	os.Exit(code)
}

// chosen returns the faults whose name matches.
func chosen(pattern string) []mutation {
	var out []mutation
	for _, m := range mutations() {
		if ok, err := regexp.MatchString(pattern, m.name); err == nil && ok {
			out = append(out, m)
		}
	}
	return out
}

// all makes faults, some at a time, and yields how each ended.
func (r runner) all(ctx context.Context, list []mutation, jobs int) <-chan result {
	queue, results := make(chan mutation), make(chan result)
	var workers sync.WaitGroup
	for range jobs {
		workers.Go(func() {
			for m := range queue {
				start := time.Now()
				noticed, err := r.run(ctx, m)
				results <- result{m.name, noticed, err, time.Since(start)}
			}
		})
	}
	go func() {
		for _, m := range list {
			queue <- m
		}
		close(queue)
		workers.Wait()
		close(results)
	}()
	return results
}

// A result is how one fault ended.
type result struct {
	name, noticed string
	err           error
	took          time.Duration
}

// print tells people, and returns the code to exit with.
func (r result) print() int {
	switch {
	case errors.Is(r.err, errUnnoticed):
		fmt.Printf("%-45s NOT NOTICED\n", r.name)
		return 1
	case r.err != nil:
		fmt.Printf("%-45s %v\n", r.name, r.err)
		return 2
	default:
		fmt.Printf("%-45s noticed by %s (%.0f s)\n", r.name, r.noticed, r.took.Seconds())
		return 0
	}
}

// A runner makes faults and runs the suite.
type runner struct {
	scenarios string
	verbose   bool
}

// run makes one fault and returns the scenario that failed.
func (r runner) run(ctx context.Context, m mutation) (scenario string, err error) {
	dir, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a temporary folder
	overlay, err := m.overlay(dir)
	if err != nil {
		return "", err
	}
	test := filepath.Join(dir, "suite.test")
	build := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", test, "./"+target)
	out, err := build.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("it does not compile: %w\n%s", err, out)
	}
	scenarios := m.scenarios
	if r.scenarios != "" {
		scenarios = r.scenarios
	}
	cmd := exec.CommandContext(ctx, test, "-test.run", "^TestConformance$/"+scenarios, "-test.failfast", "-test.v")
	cmd.Dir = target
	cmd.Env = append(os.Environ(), "VIPKIT_REQUIRE_KERNEL=1", "VIPKIT_QUICK=1")
	out, err = cmd.CombinedOutput()
	if r.verbose {
		os.Stderr.Write(out) //nolint:errcheck // for people
	}
	failed := regexp.MustCompile(`--- FAIL: TestConformance/([^/\s]+)`).FindSubmatch(out)
	switch {
	case err == nil:
		return "", errUnnoticed
	case failed == nil:
		return "", fmt.Errorf("the tests could not be run: %w\n%s", err, out)
	}
	return string(failed[1]), nil
}

// A mutation is a fault: one piece of a file replaced by another.
type mutation struct {
	name      string
	file      string
	old, new  string
	scenarios string // that are run
}

// overlay writes the changed file and what tells the compiler to take it.
func (m mutation) overlay(dir string) (string, error) {
	path, err := filepath.Abs(filepath.Join(target, m.file))
	if err != nil {
		return "", err
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if n := strings.Count(string(source), m.old); n != 1 {
		return "", fmt.Errorf("%s has %d times what is to be changed, want 1:\n%s", m.file, n, m.old)
	}
	changed := filepath.Join(dir, filepath.Base(m.file))
	if err = os.WriteFile(changed, []byte(strings.Replace(string(source), m.old, m.new, 1)), 0o600); err != nil {
		return "", err
	}
	text, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}
