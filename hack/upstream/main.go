// Upstream runs the unit tests of upstream's Service proxies and allocators in a copy of their
// module, gives every input that they give to their code to vipkit too, and compares the answers.
// Random objects and packets go through both besides. A difference must have a reason in
// differences.txt, and every reason there must be of use.
//
//	go run . [-short] [-seed 1] [-doc ../../docs/conformance.md] [-cache DIR] [-run SUITE]
//
// It is run in its own folder, and exits with 1 if a difference has no reason, a reason has no
// difference, or a test of upstream fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"
)

// bound is how long a whole run may take, compiling included.
const bound = 90 * time.Minute

// The parts of the random rounds that runs make.
const (
	wholePercent = 100
	shortPercent = 5
)

type options struct {
	short bool
	seed  int64
	doc   string
	cache string
	run   string
}

func main() {
	var o options
	flag.BoolVar(&o.short, "short", false, "few random objects and packets: minutes")
	flag.Int64Var(&o.seed, "seed", 1, "of what is random")
	flag.StringVar(&o.doc, "doc", "", "file whose section about upstream's tests is to be written")
	flag.StringVar(&o.cache, "cache", "../../.cache/upstream", "folder for the copy of upstream's module")
	flag.StringVar(&o.run, "run", "", "only the suite of that name, and no check that every reason is of use")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	if err := o.main(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

func (o options) main(ctx context.Context) error {
	known, err := readDifferences("differences.txt")
	if err != nil {
		return err
	}
	module, err := os.Getwd()
	if err != nil {
		return err
	}
	cache, err := filepath.Abs(o.cache)
	if err != nil {
		return err
	}
	t, err := makeTree(ctx, module, cache)
	if err != nil {
		return err
	}
	var failed []error
	r := &report{version: t.version, short: o.short, known: known}
	for _, s := range suites() {
		if o.run != "" && o.run != s.name {
			continue
		}
		if err := o.suite(ctx, t, s, r); err != nil {
			failed = append(failed, err)
		}
	}
	r.print(os.Stdout)
	failed = append(failed, r.check(o.run == ""))
	if o.doc != "" && errors.Join(failed...) == nil {
		failed = append(failed, section().Write(o.doc, r.markdown()))
	}
	return errors.Join(failed...)
}

func (o options) suite(ctx context.Context, t *tree, s suite, r *report) error {
	percent := wholePercent
	if o.short {
		percent = shortPercent
	}
	log := filepath.Join(filepath.Dir(t.modfile), s.name+".jsonl")
	start := time.Now()
	runErr := s.test(ctx, t, testOptions{log: log, seed: o.seed, percent: percent})
	if err := r.read(log); err != nil {
		return errors.Join(runErr, err)
	}
	fmt.Fprintf(os.Stderr, "%-16s %s\n", s.name, time.Since(start).Round(time.Second))
	return runErr
}
