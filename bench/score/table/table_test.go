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
			dir := t.TempDir()
			begin, end := section().Lines()
			reasons, doc := filepath.Join(dir, "reasons"), filepath.Join(dir, "doc")
			for file, text := range map[string]string{reasons: tc.reasons, doc: "a\n" + begin + "\nold\n" + end + "\nb\n"} {
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			err := run(strings.NewReader(tc.events), reasons, doc, tc.partial)
			switch {
			case tc.want == "" && err != nil:
				t.Errorf("run: %v", err)
			case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("run: %v, want %q", err, tc.want)
			}
			if tc.want != "" {
				return
			}
			got, err := os.ReadFile(doc)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"| ours | 1 of 1 |", "| theirs | 0 of 1 |", "| plain | pass | fails: T1 |", "\nb\n"} {
				if !strings.Contains(string(got), want) || strings.Contains(string(got), "old") {
					t.Errorf("the document has no %q:\n%s", want, got)
				}
			}
		})
	}
}
