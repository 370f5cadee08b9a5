package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/vipkit/vipkit/internal/conformance"
)

// record writes the outcomes of each proxy to a file of the folder, a line for each scenario, in place of what was there. A
// run has some of the proxies only, since not every kernel has what all need.
func (r *results) record(dir string) error {
	var errs []error
	for _, p := range r.proxies {
		var b strings.Builder
		for _, scenario := range sorted(r.scenarios) {
			if o, ok := r.scenarios[scenario][p]; ok {
				fmt.Fprintf(&b, "%s %s\n", o.action, scenario)
			}
		}
		errs = append(errs, os.WriteFile(filepath.Join(dir, p), []byte(b.String()), 0o644))
	}
	return errors.Join(errs...)
}

// recorded returns the outcomes of all proxies in the folder.
func recorded(dir string) (*results, error) {
	files, err := os.ReadDir(dir) // by name
	if err != nil {
		return nil, err
	}
	r := &results{scenarios: map[string]map[string]outcome{}}
	for _, f := range files {
		data, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			return nil, err
		}
		r.proxies = append(r.proxies, f.Name())
		for line := range strings.Lines(string(data)) {
			action, scenario, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
			if !ok {
				return nil, fmt.Errorf("%s: no line of a result: %q", f.Name(), line)
			}
			if r.scenarios[scenario] == nil {
				r.scenarios[scenario] = map[string]outcome{}
			}
			r.scenarios[scenario][f.Name()] = outcome{action: action}
		}
	}
	return r, nil
}

// document records the results, writes the table of all that are recorded, and judges the reasons by these.
func (r *results) document(o options, why []conformance.Reason) error {
	if err := r.record(o.results); err != nil {
		return err
	}
	all, err := recorded(o.results)
	if err != nil {
		return err
	}
	if err := section().Write(o.doc, all.markdown(why)); err != nil {
		return err
	}
	return all.superfluous(why)
}
