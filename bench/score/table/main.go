// Table reads what `go test -json` says of package score, prints a line for each scenario and a column for each proxy, and
// fails if a scenario failed for which the file of reasons has none, or a reason is given for one that passed.
//
//	go test -json ./score | go run ./score/table -reasons score/reasons.txt [-results score/results -doc ../docs/conformance.md] [-partial]
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/vipkit/vipkit/internal/conformance"
)

func main() {
	var o options
	flag.StringVar(&o.doc, "doc", "", "`file` to write the table of all recorded results to, after recording these")
	flag.StringVar(&o.results, "results", "", "`folder` of the recorded results of each proxy, for -doc")
	flag.StringVar(&o.reasons, "reasons", "", "`file` with the reasons of failures")
	flag.BoolVar(&o.partial, "partial", false, "not everything was played: a reason that was not needed is no failure, unless by all recorded results")
	flag.Parse()
	if err := o.run(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "table:", err)
		os.Exit(1)
	}
}

type options struct {
	reasons, results, doc string
	partial               bool
}

func (o options) run(in io.Reader) error {
	results, err := read(in)
	if err != nil {
		return err
	}
	if len(results.proxies) == 0 {
		return errors.New("no scenario was played")
	}
	why, err := conformance.ReadReasons(o.reasons)
	if err != nil {
		return err
	}
	fmt.Print(results.markdown(why))
	errs := []error{results.judge(why)}
	switch {
	case o.doc != "":
		errs = append(errs, results.document(o, why))
	case !o.partial:
		errs = append(errs, results.superfluous(why))
	}
	return errors.Join(errs...)
}

// results are the outcomes by scenario and proxy.
type results struct {
	proxies   []string
	scenarios map[string]map[string]outcome
}

// pass is the action of a scenario that went as it should.
const pass = "pass"

// An outcome is what became of one scenario with one proxy.
type outcome struct {
	action string // pass, fail, skip, as go test has them
	output string // of a failure: its first lines
}

// An event is a line of `go test -json`.
type event struct {
	Action, Test, Output string
}

// maxOutput bounds how much of a failure is kept.
const maxOutput = 600

// read collects the outcomes of tests named TestScore/PROXY/SCENARIO. Output of their subtests counts as theirs.
func read(in io.Reader) (*results, error) {
	r := &results{scenarios: map[string]map[string]outcome{}}
	for sc := lines(in); ; {
		line, err := sc.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) == nil { // a line of the linker or of make is none
				r.add(e)
			}
		}
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func lines(in io.Reader) *bufio.Reader { return bufio.NewReaderSize(in, 1<<20) }

func (r *results) add(e event) {
	part := strings.Split(e.Test, "/")
	if len(part) < 3 || part[0] != "TestScore" {
		return
	}
	proxy, scenario := part[1], part[2]
	if !slices.Contains(r.proxies, proxy) {
		r.proxies = append(r.proxies, proxy)
	}
	if r.scenarios[scenario] == nil {
		r.scenarios[scenario] = map[string]outcome{}
	}
	o := r.scenarios[scenario][proxy]
	switch {
	case e.Action == "output" && strings.Contains(e.Output, "_test.go:") || e.Action == "output" && strings.Contains(e.Output, ".go:"):
		if len(o.output) < maxOutput {
			o.output += e.Output
		}
	case len(part) == 3 && (e.Action == pass || e.Action == "fail" || e.Action == "skip"):
		o.action = e.Action
	}
	r.scenarios[scenario][proxy] = o
}

// judge returns an error that names what is not explained.
func (r *results) judge(why []conformance.Reason) error {
	var errs []error
	for _, scenario := range sorted(r.scenarios) {
		for _, proxy := range r.proxies {
			o := r.scenarios[scenario][proxy]
			switch {
			case o.action == pass:
			case o.action == "":
				errs = append(errs, fmt.Errorf("%s: %s was not played to its end", proxy, scenario))
			case conformance.Find(why, proxy, scenario) < 0:
				errs = append(errs, fmt.Errorf("%s: %s: %s without a reason\n%s", proxy, scenario, o.action, o.output))
			}
		}
	}
	return errors.Join(errs...)
}

// superfluous returns an error that names the reasons of these proxies that explain nothing.
func (r *results) superfluous(why []conformance.Reason) error {
	used := make([]bool, len(why))
	for scenario, byProxy := range r.scenarios {
		for proxy, o := range byProxy {
			if i := conformance.Find(why, proxy, scenario); i >= 0 && o.action != pass {
				used[i] = true
			}
		}
	}
	var errs []error
	for i, w := range why {
		if !used[i] && slices.ContainsFunc(r.proxies, w.Of) {
			errs = append(errs, fmt.Errorf("reason %s is not needed: no scenario that it names failed", w.ID))
		}
	}
	return errors.Join(errs...)
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for n := range m {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}
