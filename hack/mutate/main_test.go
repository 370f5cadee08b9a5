package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

const sampleDir = "hack/mutate/testdata/sample"

// sampleKeys are all faults of the sample, and whether its tests notice them.
const sampleKeys = `
	yes Judge: drop: if n < 0 { … => (nothing)
	yes Judge: negate: if n < 0 { => if !(n < 0) {
	yes Judge: off-by-one: if n < 0 { => if n <= 0 {
	yes Judge: off-by-one: if n < 0 { => if n < 1 {
	yes Judge: drop: return Drop, fmt.Errorf("n %d: %w", 1, errNegative) => (nothing)
	yes Judge: swap: return Drop, fmt.Errorf("n %d: %w", 1, errNegative) => return Reject, fmt.Errorf("n %d: %w", 1, errNegative)
	yes Judge: swap: case n == 0 && limit > 0: => case (n == 0 || limit > 0):
	yes Judge: negate: case n == 0 && limit > 0: => case !(n == 0) && limit > 0:
	yes Judge: negate: case n == 0 && limit > 0: => case n == 0 && !(limit > 0):
	yes Judge: off-by-one: case n == 0 && limit > 0: => case n == 1 && limit > 0:
	yes Judge: off-by-one: case n == 0 && limit > 0: => case n == 0 && limit >= 0:
	yes Judge: off-by-one: case n == 0 && limit > 0: => case n == 0 && limit > 1:
	yes Judge: swap: return Accept, nil => return Drop, nil
	yes Judge: swap: return Reject, nil => return Accept, nil
	yes Sum: drop: for _, n := range list { … => (nothing)
	yes Sum: drop: if seen[n] { … => (nothing)
	yes Sum: negate: if seen[n] { => if !(seen[n]) {
	yes Sum: drop: continue => (nothing)
	yes Sum: drop: seen[n] = true => (nothing)
	yes Sum: swap: seen[n] = true => seen[n] = false
	yes Sum: drop: sum += n => (nothing)
	yes Distance: drop: if a > b { … => (nothing)
	yes Distance: negate: if a > b { => if !(a > b) {
	no Distance: off-by-one: if a > b { => if a >= b {
	yes Distance: drop: return minus(a, b) => (nothing)
	yes Distance: swap: return minus(a, b) => return minus(b, a)
	yes Distance: swap: return minus(b, a) => return minus(a, b)
	yes minus: swap: func minus(a, b int) int { return a - b } => func minus(a, b int) int { return b - a }`

// TestSample finds, weaves, compiles and judges every fault of a small package.
func TestSample(t *testing.T) {
	t.Chdir("../..")
	sample := target{sampleDir, []stage{{kind: unit, dir: sampleDir}}}
	dir := t.TempDir()
	l, err := woven(t.Context(), dir, []target{sample})
	if err != nil {
		t.Fatal(err)
	}
	work := &lab{dir: dir, overlay: l.overlay, jobs: 1, match: regexp.MustCompile("."), benches: map[stage]*bench{}}
	if err = work.prepare(t.Context(), sample); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(sampleKeys)) {
		noticed, key, _ := strings.Cut(strings.TrimSpace(line), " ")
		want[sampleDir+"/sample.go: "+key] = noticed
	}
	r := newReport(l.mutants, nil)
	o := options{only: regexp.MustCompile(".")}
	for v := range work.judgeAll(t.Context(), draw(o, []target{sample}, l.mutants), time.Minute) {
		r.add(v)
		got := "no"
		if v.kind == unit {
			got = "yes"
		}
		if want[v.key()] != got {
			t.Errorf("noticed: %s (%s, %v), want %q: %s", got, v.by, v.err, want[v.key()], v.key())
		}
		delete(want, v.key())
	}
	for key := range want {
		t.Errorf("no such fault: %s", key)
	}
	var table strings.Builder
	r.print(&table)
	for _, text := range []string{"96.4%", sampleDir + "/sample.go:49:5: off-by-one in Distance", "\t+ if a >= b {"} {
		if !strings.Contains(table.String(), text) {
			t.Errorf("the report lacks %q:\n%s", text, table.String())
		}
	}
}

// TestDraw draws the same faults again, and others with another seed.
func TestDraw(t *testing.T) {
	t.Chdir("../..")
	sources, err := load(t.Context(), []string{sampleDir})
	if err != nil {
		t.Fatal(err)
	}
	all := sources[0].mutants()
	drawn := func(seed int64) string {
		var keys []string
		o := options{only: regexp.MustCompile("."), n: 5, seed: seed}
		for _, j := range draw(o, []target{{dir: sampleDir}}, all) {
			keys = append(keys, j.mutant.key())
		}
		if len(keys) != 5 {
			t.Errorf("%d faults drawn, want 5", len(keys))
		}
		return strings.Join(keys, "\n")
	}
	if first := drawn(1); drawn(1) != first || drawn(2) == first {
		t.Error("the seed does not decide what is drawn")
	}
}

func TestAccepted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "survivors.txt")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# the same\n# either way\na.go: F: drop: x => y\na.go: G: drop: x => y\n\n# other\nb.go: F: swap: x => y\n")
	got, err := accepted(path)
	if err != nil || len(got) != 3 || got["a.go: G: drop: x => y"] != "the same either way" || got["b.go: F: swap: x => y"] != "other" {
		t.Errorf("%q, %v", got, err)
	}
	write("# reason\n\na.go: F: drop: x => y\n")
	if _, err = accepted(path); err == nil || !strings.Contains(err.Error(), "no reason") {
		t.Errorf("without a reason: %v", err)
	}
}

// TestStale reports accepted faults that are no more, of packages that were looked at.
func TestStale(t *testing.T) {
	t.Chdir("../..")
	sources, err := load(t.Context(), []string{sampleDir})
	if err != nil {
		t.Fatal(err)
	}
	all := sources[0].mutants()
	gone, elsewhere := sampleDir+"/sample.go: Old: drop: x => y", "endpoints/a.go: F: drop: x => y"
	r := newReport(all, map[string]string{all[0].key(): "a", gone: "b", elsewhere: "c"})
	if got := r.stale(all); len(got) != 1 || got[0] != gone {
		t.Errorf("stale: %q", got)
	}
}
