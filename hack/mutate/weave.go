package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Variables of the environment that woven programs read.
const (
	envMutant = "MUTATE_ID"    // the mutant that is active; none if empty
	envTrace  = "MUTATE_TRACE" // a file that gets the id of each mutant that is reached
)

// helper is the file that each woven package gets. Reading the environment when the program starts costs tests nothing.
const helper = `package %s

import (
	mutantOS "os"
	mutantStrconv "strconv"
	mutantAtomic "sync/atomic"
)

var (
	mutantActive, _ = mutantStrconv.Atoi(mutantOS.Getenv("` + envMutant + `"))
	mutantTrace     = mutantOS.Getenv("` + envTrace + `")
	mutantReached   [%d]mutantAtomic.Bool // allocates nothing, as some tests count that
)

func mutantOn(id int) bool {
	if mutantTrace != "" {
		if !mutantReached[id].Swap(true) {
			f, err := mutantOS.OpenFile(mutantTrace, mutantOS.O_APPEND|mutantOS.O_CREATE|mutantOS.O_WRONLY, 0o600)
			if err == nil {
				f.WriteString(mutantStrconv.Itoa(id) + "\n")
				f.Close()
			}
		}
	}
	return id == mutantActive
}

func mutantPick[T any](id int, other, original T) T {
	if mutantOn(id) {
		return other
	}
	return original
}
`

// An edit is a site with the mutant that it belongs to.
type edit struct {
	site
	id int
}

// weave returns a file in which every mutant is present and asks at run time whether it is the active one. One compilation so
// serves all of them.
func weave(f *file, mutants []*mutant) string {
	var edits []edit
	for _, m := range mutants {
		for _, s := range m.sites {
			if s.file == f {
				edits = append(edits, edit{s, m.id})
			}
		}
	}
	// Outer pieces come before those inside them.
	slices.SortStableFunc(edits, func(a, b edit) int {
		return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(b.end, a.end))
	})
	w := weaver{text: f.text, edits: edits}
	var out strings.Builder
	w.write(&out, 0, len(f.text))
	return out.String()
}

type weaver struct {
	text  []byte
	edits []edit // not yet written
}

// write writes a range of the file and all edits in it.
func (w *weaver) write(out *strings.Builder, start, end int) {
	for len(w.edits) > 0 && w.edits[0].end <= end {
		e := w.edits[0]
		w.edits = w.edits[1:]
		out.Write(w.text[start:e.start])
		var inner strings.Builder
		w.write(&inner, e.start, e.end)
		out.WriteString(e.wrap(inner.String()))
		start = e.end
	}
	out.Write(w.text[start:end])
}

// wrap puts the mutated piece beside the original. Only one of the two is evaluated, but for values,
// which have no effects.
func (e edit) wrap(original string) string {
	switch e.form {
	case condition:
		return fmt.Sprintf("(mutantOn(%d) && (%s) || !mutantOn(%d) && (%s))", e.id, e.alt, e.id, original)
	case statement:
		return fmt.Sprintf("if !mutantOn(%d) { %s }", e.id, original)
	case value:
	}
	typ := ""
	if e.typ != "" {
		typ = "[" + e.typ + "]"
	}
	return fmt.Sprintf("mutantPick%s(%d, %s, %s)", typ, e.id, e.alt, original)
}

// A loom weaves packages into a folder and builds them; what does not compile is taken out.
type loom struct {
	dir     string
	sources []*source
	mutants []*mutant
	overlay string
	woven   map[string]string // text by the path that the compiler prints
}

// weaveAll writes the overlay and takes out what the compiler refuses, until it builds.
func (l *loom) weaveAll(ctx context.Context) (refused int, err error) {
	for range 20 {
		if err = l.write(); err != nil {
			return refused, err
		}
		out, err := l.build(ctx)
		if err == nil {
			return refused, nil
		}
		bad := l.blamed(out)
		if len(bad) == 0 {
			return refused, fmt.Errorf("woven packages do not compile: %w\n%s", err, out)
		}
		refused += len(bad)
		l.mutants = slices.DeleteFunc(l.mutants, func(m *mutant) bool { return bad[m.id] })
	}
	return refused, fmt.Errorf("woven packages do not compile after %d mutants were taken out", refused)
}

func (l *loom) build(ctx context.Context) ([]byte, error) {
	args := []string{"build", "-gcflags=-e", "-overlay", l.overlay}
	for _, s := range l.sources {
		args = append(args, "./"+s.dir)
	}
	return exec.CommandContext(ctx, "go", args...).CombinedOutput()
}

// blamed returns the mutants on the lines that the compiler complains about, or on the nearest line before that has any.
func (l *loom) blamed(out []byte) map[int]bool {
	bad := map[int]bool{}
	on := regexp.MustCompile(`mutant(?:On|Pick(?:\[[^(]*\])?)\((\d+)`)
	for _, m := range regexp.MustCompile(`(?m)^(\S+\.go):(\d+):\d+: `).FindAllSubmatch(out, -1) {
		path, err := filepath.Abs(string(m[1]))
		lines := strings.Split(l.woven[path], "\n")
		n, _ := strconv.Atoi(string(m[2]))
		if err != nil || n < 1 || n > len(lines) {
			continue
		}
		for ; n > 0; n-- {
			found := on.FindAllStringSubmatch(lines[n-1], -1)
			for _, id := range found {
				i, _ := strconv.Atoi(id[1])
				bad[i] = true
			}
			if len(found) > 0 {
				break
			}
		}
	}
	return bad
}

func (l *loom) highest() int {
	id := 0
	for _, m := range l.mutants {
		id = max(id, m.id)
	}
	return id
}

func (l *loom) write() error {
	replace := map[string]string{}
	l.woven = map[string]string{}
	n := 0
	put := func(path, text string) error {
		n++
		to := filepath.Join(l.dir, fmt.Sprintf("%d.go", n))
		replace[path] = to
		l.woven[to] = text
		return os.WriteFile(to, []byte(text), 0o600)
	}
	for _, s := range l.sources {
		for _, f := range s.files {
			if err := put(f.path, weave(f, l.mutants)); err != nil {
				return err
			}
		}
		path := filepath.Join(filepath.Dir(s.files[0].path), "zz_mutants.go")
		if err := put(path, fmt.Sprintf(helper, s.types.Name(), l.highest()+1)); err != nil {
			return err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	l.overlay = filepath.Join(l.dir, "overlay.json")
	return os.WriteFile(l.overlay, bytes.TrimSpace(text), 0o600)
}
