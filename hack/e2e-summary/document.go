package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vipkit/vipkit/internal/conformance"
)

// section is where the table stands in the document.
func section() conformance.Section {
	return conformance.Section{Name: "e2e-suite", By: "make e2e-suite RECORD=yes"}
}

// document writes the table of all recorded results to the document.
func (o options) document(reasons []conformance.Reason) error {
	table, err := o.table(reasons)
	if err != nil {
		return err
	}
	return section().Write(o.doc, table)
}

// table has a line for each proxy, and one for each test that did not pass with each of them.
func (o options) table(reasons []conformance.Reason) (string, error) {
	files, err := filepath.Glob(filepath.Join(o.results, "*"))
	if err != nil {
		return "", err
	}
	slices.Sort(files)
	var b strings.Builder
	b.WriteString("| proxy | result |\n|---|---|\n")
	states := map[string]map[string]string{} // by test and proxy
	var names []string
	var errs []error
	for _, f := range files {
		proxy := filepath.Base(f)
		tests, err := readResults(f)
		errs = append(errs, err)
		fmt.Fprintf(&b, "| %s | %s |\n", proxy, count(tests))
		names = append(names, proxy)
		for _, t := range tests {
			if states[t.Name] == nil {
				states[t.Name] = map[string]string{}
			}
			states[t.Name][proxy] = t.State
		}
	}
	fmt.Fprintf(&b, "\nTests that did not pass with every proxy:\n\n| test | %s | why |\n|---|%s---|\n", strings.Join(names, " | "), strings.Repeat("---|", len(names)))
	for _, test := range slices.Sorted(maps.Keys(states)) {
		if line := row(test, names, states[test], reasons); line != "" {
			b.WriteString(line)
		}
	}
	return b.String(), errors.Join(errs...)
}

// row returns the line of a test, "" if it passed everywhere.
func row(test string, proxies []string, states map[string]string, reasons []conformance.Reason) string {
	var cells, whys []string
	all := true
	for _, p := range proxies {
		s := states[p]
		if s == "" {
			s = "not run"
		}
		cells = append(cells, s)
		if s == statePassed {
			continue
		}
		all = false
		if i := conformance.Find(reasons, p, test); i >= 0 && !slices.Contains(whys, reasons[i].Why) {
			whys = append(whys, reasons[i].Why)
		}
	}
	if all {
		return ""
	}
	return fmt.Sprintf("| %s | %s | %s |\n", strings.ReplaceAll(test, "|", `\|`), strings.Join(cells, " | "), strings.Join(whys, "; "))
}
