// E2e-summary says what a run of Kubernetes' tests with one proxy came to, from Ginkgo's JSON report. It compares the result of
// every test with what kube-proxy's was and fails if a test that kube-proxy passes has not passed and no reason is on record.
// Without -proxy it prints the results only.
//
//	e2e-summary [-proxy NAME -results DIR -reasons FILE [-record [-merge] -doc FILE]] REPORT.json
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/vipkit/vipkit/internal/conformance"
)

// reference is the proxy whose results the others are held against.
const reference = "kube-proxy"

func main() {
	var o options
	flag.StringVar(&o.proxy, "proxy", "", "`name` of the proxy that the tests ran with; without it nothing is judged")
	flag.StringVar(&o.results, "results", "", "`folder` with the recorded results of each proxy")
	flag.StringVar(&o.reasons, "reasons", "", "`file` with the reasons of failures")
	flag.BoolVar(&o.record, "record", false, "record the results, and write the table")
	flag.BoolVar(&o.merge, "merge", false, "with -record: the run had some of the tests only, and what is on record of others stays")
	flag.StringVar(&o.doc, "doc", "", "`file` to write the table to, with -record")
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := o.run(flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "e2e-summary:", err)
		os.Exit(1)
	}
}

type options struct {
	proxy, results, reasons, doc string
	record, merge                bool
}

func (o options) run(report string) error {
	tests, err := readReport(report)
	if err != nil {
		return err
	}
	if len(tests) == 0 {
		return errors.New("no test ran")
	}
	for _, t := range tests {
		fmt.Println(t.line())
	}
	if o.proxy == "" {
		fmt.Println(count(tests))
		return nil
	}
	fmt.Printf("%s: %s\n", o.proxy, count(tests))
	reasons, err := conformance.ReadReasons(o.reasons)
	if err != nil {
		return err
	}
	if o.record {
		if err := record(filepath.Join(o.results, o.proxy), tests, o.merge); err != nil {
			return err
		}
		if err := o.document(reasons); err != nil {
			return err
		}
	}
	return o.judge(tests, reasons)
}

// judge returns an error that names every test that failed and may not.
func (o options) judge(tests []test, reasons []conformance.Reason) error {
	passed := map[string]bool{}
	recorded, err := readResults(filepath.Join(o.results, reference))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, t := range recorded {
		passed[t.Name] = t.State == statePassed
	}
	var errs []error
	for _, t := range tests {
		explained := conformance.Find(reasons, o.proxy, t.Name) >= 0
		switch {
		case t.State == statePassed || t.State == stateSkipped || explained:
		case passed[t.Name]:
			errs = append(errs, fmt.Errorf("%s passes it: %s", reference, t.line()))
		default:
			errs = append(errs, fmt.Errorf("no reason on record: %s", t.line()))
		}
	}
	return errors.Join(errs...)
}
