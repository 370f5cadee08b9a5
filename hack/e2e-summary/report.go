package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The states of a test, in Ginkgo's words.
const (
	statePassed  = "passed"
	stateSkipped = "skipped"
)

// A test is one test that ran, or that skipped itself.
type test struct {
	Name  string
	State string
	why   string // of a test that has not passed: place and first line of the message
	took  time.Duration
}

func byName(a, b test) int { return strings.Compare(a.Name, b.Name) }

func (t test) line() string {
	s := fmt.Sprintf("%-8s %5.0fs  %s", t.State, t.took.Seconds(), t.Name)
	if t.why != "" {
		s += "\n                 " + t.why
	}
	return s
}

// A spec is what this program reads of Ginkgo's report of one test.
type spec struct {
	ContainerHierarchyTexts []string
	LeafNodeText            string
	LeafNodeType            string
	State                   string
	RunTime                 time.Duration
	Failure                 struct {
		Message  string
		Location struct {
			FileName   string
			LineNumber int
		}
	}
}

// readReport returns the tests of a report by name. Tests that were not selected are left out, and so is the suite's own
// set-up unless it failed.
func readReport(name string) ([]test, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var suites []struct{ SpecReports []spec }
	if err := json.Unmarshal(data, &suites); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var tests []test
	for _, suite := range suites {
		for _, s := range suite.SpecReports {
			setUp := s.LeafNodeType != "It" && s.State == statePassed
			unselected := s.State == stateSkipped && s.Failure.Message == ""
			if !setUp && !unselected {
				tests = append(tests, s.test())
			}
		}
	}
	slices.SortFunc(tests, byName)
	return tests, nil
}

func (s spec) test() test {
	t := test{Name: strings.Join(append(s.ContainerHierarchyTexts, s.LeafNodeText), " "), State: s.State, took: s.RunTime}
	if s.State != statePassed {
		first, _, _ := strings.Cut(s.Failure.Message, "\n")
		t.why = fmt.Sprintf("%s:%d: %.200s", filepath.Base(s.Failure.Location.FileName), s.Failure.Location.LineNumber, first)
	}
	return t
}

// count returns how many tests ended in which state.
func count(tests []test) string {
	n := map[string]int{}
	var states []string
	for _, t := range tests {
		if n[t.State] == 0 {
			states = append(states, t.State)
		}
		n[t.State]++
	}
	slices.Sort(states)
	for i, s := range states {
		states[i] = fmt.Sprintf("%d %s", n[s], s)
	}
	return strings.Join(states, ", ")
}

// record writes the tests in a form that readResults reads, without times, so that two equal runs give equal files. What was
// recorded before stays for tests that skipped themselves, as they want another cluster; with merge, also for those that did not run.
func record(name string, tests []test, merge bool) error {
	before, err := readResults(name)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	tests = slices.Clone(tests)
	for _, old := range before {
		i := slices.IndexFunc(tests, func(t test) bool { return t.Name == old.Name })
		switch {
		case i >= 0 && tests[i].State == stateSkipped:
			tests[i] = old
		case i < 0 && merge:
			tests = append(tests, old)
		}
	}
	slices.SortFunc(tests, byName)
	var b strings.Builder
	for _, t := range tests {
		fmt.Fprintf(&b, "%s %s\n", t.State, t.Name)
	}
	return os.WriteFile(name, []byte(b.String()), 0o644)
}

func readResults(name string) ([]test, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	var tests []test
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if state, title, ok := strings.Cut(sc.Text(), " "); ok {
			tests = append(tests, test{Name: title, State: state})
		}
	}
	return tests, nil
}
