package main

import (
	"strings"
	"testing"
)

const source = `package p

type T struct {
	a int
}

// F calls itself.
func F() { F() }

func (t *T) F() {}
`

func TestHookRenamesAndAddsFields(t *testing.T) {
	h := hook{file: "p.go", rename: []string{"T.F"}, fields: map[string]string{"T": "b string"}}
	got, err := h.apply([]byte(source))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"func (t *T) upstreamF() {}", "func F() { F() }", "b string"} {
		if !strings.Contains(string(got), want) {
			t.Errorf("has no %q:\n%s", want, got)
		}
	}
}

func TestHookNamesWhatIsMissing(t *testing.T) {
	h := hook{file: "p.go", rename: []string{"G", "U.F"}, fields: map[string]string{"V": "b string"}}
	_, err := h.apply([]byte(source))
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{"function G", "function U.F", "struct V"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}
