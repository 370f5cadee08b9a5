// Package conformance has what the programs share that judge proxies by tests: reasons for what a
// proxy fails, and sections of a document that a program writes.
package conformance

import (
	"fmt"
	"os"
	"strings"
)

// A Section is a part of a document that a program writes anew in each run. It stands between the lines
//
//	<!-- begin NAME: written by BY -->
//	<!-- end NAME -->
//
// of which the document has one pair.
type Section struct {
	Name string
	By   string // the command that people run
}

// Lines returns the two lines.
func (s Section) Lines() (first, last string) {
	return "<!-- begin " + s.Name + ": written by " + s.By + " -->", "<!-- end " + s.Name + " -->"
}

// Write replaces the section's text in a file. The text around it stays.
func (s Section) Write(file, text string) error {
	old, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	first, last := s.Lines()
	before, rest, ok := strings.Cut(string(old), first)
	_, after, ended := strings.Cut(rest, last)
	if !ok || !ended {
		return fmt.Errorf("%s: no lines %q and %q", file, first, last)
	}
	return os.WriteFile(file, []byte(before+first+"\n\n"+text+"\n"+last+after), 0o644) //nolint:gosec // a document
}
