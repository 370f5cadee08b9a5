package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const events = `linker: a line that is no event
{"Action":"run","Test":"TestScore/ours/plain"}
{"Action":"pass","Test":"TestScore/ours/plain/1"}
{"Action":"pass","Test":"TestScore/ours/plain"}
{"Action":"output","Test":"TestScore/theirs/plain/1","Output":"    packets.go:7: reached c\n"}
{"Action":"fail","Test":"TestScore/theirs/plain/1"}
{"Action":"fail","Test":"TestScore/theirs/plain"}
`

func TestTable(t *testing.T) {
	for name, tc := range map[string]struct {
		events, reasons, want string
		partial               bool
	}{
		"explained":        {events, "theirs | pla.n | T1 | it does so\n", "", false},
		"not explained":    {events, "ours | plain | T1 | it does so\n", "theirs: plain: fail without a reason\n    packets.go:7: reached c", true},
		"half of the name": {events, "theirs | pla | T1 | it does so\n", "without a reason", true},
		"superfluous":      {events, "theirs | plain | T1 | x\nours | plain | T2 | y\n", "reason T2 is not needed", false},
		"may be":           {events, "theirs | plain | T1 | x\nours | plain | T2 | y\n", "", true},
		"of another proxy": {events, "theirs | plain | T1 | x\nabsent | plain | T2 | y\n", "", false},
		"cut off":          {`{"Action":"run","Test":"TestScore/ours/plain"}`, "", "was not played to its end", false},
		"nothing":          {"", "", "no scenario was played", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOptions(t, tc.reasons)
			o.doc, o.partial = "", tc.partial
			err := o.run(strings.NewReader(tc.events))
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("run: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("run: %v, want %q", err, tc.want)
			}
		})
	}
}

// newOptions has a document with a table, and the results of an earlier run.
func newOptions(t *testing.T, reasons string) options {
	t.Helper()
	dir := t.TempDir()
	o := options{reasons: filepath.Join(dir, "reasons"), results: filepath.Join(dir, "results"), doc: filepath.Join(dir, "doc")}
	if err := os.Mkdir(o.results, 0o755); err != nil {
		t.Fatal(err)
	}
	begin, end := section().Lines()
	for file, text := range map[string]string{
		o.reasons: reasons, o.doc: "a\n" + begin + "\nold\n" + end + "\nb\n", filepath.Join(o.results, "earlier"): "fail plain\npass other\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

func TestRecord(t *testing.T) {
	o := newOptions(t, "theirs|earlier | plain | T1 | x\nabsent | plain | T2 | y\n")
	for range 2 { // the second time nothing changes
		if err := o.run(strings.NewReader(events)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(o.doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"| ours | 1 of 1 |", "| theirs | 0 of 1 |", "| earlier | 1 of 2 |", "| plain | fails: T1 | pass | fails: T1 |",
			"| other | pass | not played | not played |", "\nb\n",
		} {
			if !strings.Contains(string(got), want) || strings.Contains(string(got), "old") {
				t.Errorf("the document has no %q:\n%s", want, got)
			}
		}
	}
	o = newOptions(t, "theirs|earlier | plain | T1 | x\nearlier | other | T2 | y\n")
	o.partial = true
	if err := o.run(strings.NewReader(events)); err == nil || !strings.Contains(err.Error(), "reason T2 is not needed") {
		t.Errorf("a reason that no recorded result needs: %v", err)
	}
}
