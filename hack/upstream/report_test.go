package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

func newReport(records ...shadow.Record) *report {
	r := &report{version: "v1", known: map[string]difference{
		"a/known": {reason: "It is so."}, "a/rare": {reason: "It is rare.", whole: true}, "a/no": {leftOut: true},
	}}
	for _, rec := range records {
		r.add(rec)
	}
	return r
}

func TestCheck(t *testing.T) {
	known, no := shadow.Record{Area: "a", ID: "known", N: 1}, shadow.Record{Area: "a", ID: "no", N: 1}
	rare := shadow.Record{Area: "a", ID: "rare", N: 1}
	tests := []struct {
		name    string
		short   bool
		records []shadow.Record
		want    string // in the error; "" for none
	}{
		{"all occur", false, []shadow.Record{known, no, rare}, ""},
		{"a rare one may be missing in a short run", true, []shadow.Record{known, no}, ""},
		{"but not in a whole one", false, []shadow.Record{known, no}, "a/rare: has a reason and does not occur"},
		{"a reason of no use", true, []shadow.Record{no}, "a/known: has a reason and does not occur"},
		{"no reason", true, []shadow.Record{known, no, {Area: "a", ID: "new", N: 3}}, "a/new: 3 differences without a reason"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newReport(tt.records...)
			r.short = tt.short
			err := r.check(true)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("check() = %v, want %q", err, tt.want)
			}
		})
	}
}

func TestRowsAddUp(t *testing.T) {
	r := newReport(
		shadow.Record{Area: "a", N: 7}, shadow.Record{Area: "a", ID: "known", N: 2},
		shadow.Record{Area: "a", ID: "no", N: 1}, shadow.Record{Area: "a", ID: "new", N: 3},
	)
	if got, want := r.rows[rowKey{area: "a"}], (row{agree: 7, documented: 2, leftOut: 1, unexplained: 3}); got != want {
		t.Errorf("row is %+v, want %+v", got, want)
	}
}

func TestReadDifferences(t *testing.T) {
	path := filepath.Join(t.TempDir(), "d.txt")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("# a comment\n\na/b [left out] [whole run]: One\n  two.\n")
	got, err := readDifferences(path)
	if want := (difference{reason: "One two.", leftOut: true, whole: true}); err != nil || got["a/b"] != want {
		t.Errorf("readDifferences() = %+v, %v, want %+v", got["a/b"], err, want)
	}
	for _, bad := range []string{"nonsense\n", " first\n", "a/b: x\na/b: y\n"} {
		write(bad)
		if _, err := readDifferences(path); err == nil {
			t.Errorf("%q is no error", bad)
		}
	}
}

func TestMarkdown(t *testing.T) {
	r := newReport(shadow.Record{Area: "a", N: 2}, shadow.Record{Area: "b", ID: "x", N: 3}, shadow.Record{Area: "a", ID: "known", N: 3})
	for _, want := range []string{"| a | tests | 5 | 2 | 3 |", "| a/known | 3 | It is so. |"} {
		if text := r.markdown(); !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// The adapters are for the version that bench compares speed with.
func TestVersionIsThatOfBench(t *testing.T) {
	version := func(path string) string {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(content)) {
			if f := strings.Fields(line); len(f) == 2 && f[0] == upstreamModule {
				return f[1]
			}
		}
		return ""
	}
	if ours, theirs := version("go.mod"), version("../../bench/go.mod"); ours == "" || ours != theirs {
		t.Errorf("%s is %q here and %q in bench", upstreamModule, ours, theirs)
	}
}
