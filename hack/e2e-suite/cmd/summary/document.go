package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The table stands between these lines of the document.
const (
	begin = "<!-- begin e2e-suite: written by make e2e-suite RECORD=yes -->"
	end   = "<!-- end e2e-suite -->"
)

// document writes the table of all recorded results between the marks of the document.
func (o options) document(reasons []reason) error {
	text, err := os.ReadFile(o.doc)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s: no lines %q and %q", o.doc, begin, end)
	}
	table, err := o.table(reasons)
	if err != nil {
		return err
	}
	return os.WriteFile(o.doc, []byte(before+begin+"\n\n"+table+"\n"+end+after), 0o644)
}

// table has a line for each proxy, and one for each test that did not pass with each of them.
func (o options) table(reasons []reason) (string, error) {
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
func row(test string, proxies []string, states map[string]string, reasons []reason) string {
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
		if why := find(reasons, p, test); why != "" && !slices.Contains(whys, why) {
			whys = append(whys, why)
		}
	}
	if all {
		return ""
	}
	return fmt.Sprintf("| %s | %s | %s |\n", strings.ReplaceAll(test, "|", `\|`), strings.Join(cells, " | "), strings.Join(whys, "; "))
}
