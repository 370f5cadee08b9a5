package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// A tally counts what became of the mutants of a package.
type tally struct {
	all, judged, noticed, accepted int
	kinds                          map[string]int
}

// A report collects verdicts.
type report struct {
	accepted  map[string]string
	packages  map[string]*tally
	survivors []verdict
	skipped   int // the time was over before them
}

func newReport(list []*mutant, accepted map[string]string) *report {
	r := &report{accepted: accepted, packages: map[string]*tally{}}
	for _, m := range list {
		r.of(m).all++
	}
	return r
}

func (r *report) of(m *mutant) *tally {
	t := r.packages[m.dir]
	if t == nil {
		t = &tally{kinds: map[string]int{}}
		r.packages[m.dir] = t
	}
	return t
}

// add notes a verdict and returns a line about it.
func (r *report) add(v verdict) string {
	if v.err != nil {
		r.skipped++
		return ""
	}
	t := r.of(v.mutant)
	t.judged++
	if v.kind != "" {
		t.noticed++
		t.kinds[v.kind]++
		return fmt.Sprintf("noticed by %s (%s), %.1f s", v.kind, v.by, v.took.Seconds())
	}
	r.survivors = append(r.survivors, v)
	if why := r.accepted[v.key()]; why != "" {
		t.accepted++
		return "accepted: " + why
	}
	return "NOT NOTICED"
}

// unexplained returns the survivors that nobody has accepted.
func (r *report) unexplained() []verdict {
	return slices.DeleteFunc(slices.Clone(r.survivors), func(v verdict) bool { return r.accepted[v.key()] != "" })
}

// stale returns the accepted keys that no mutant of these packages has any more.
func (r *report) stale(list []*mutant) []string {
	known, files := map[string]bool{}, map[string]bool{}
	for _, m := range list {
		known[m.key()] = true
		files[m.dir] = true
	}
	var out []string
	for k := range r.accepted {
		path, _, _ := strings.Cut(k, ": ")
		if dir := path[:max(0, strings.LastIndexByte(path, '/'))]; files[dir] && !known[k] {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// print writes a table and the survivors.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "\n%-20s %6s %6s %8s %6s %9s  %s\n", "package", "faults", "tried", "noticed", "", "accepted", "by") //nolint:errcheck // for people
	for _, dir := range slices.Sorted(maps.Keys(r.packages)) {
		t := r.packages[dir]
		var kinds []string
		for _, k := range slices.Sorted(maps.Keys(t.kinds)) {
			kinds = append(kinds, fmt.Sprintf("%s %d", k, t.kinds[k]))
		}
		fmt.Fprintf(w, "%-20s %6d %6d %8d %5.1f%% %9d  %s\n", //nolint:errcheck // for people
			dir, t.all, t.judged, t.noticed, 100*float64(t.noticed)/float64(max(1, t.judged)), t.accepted, strings.Join(kinds, ", "))
	}
	if r.skipped > 0 {
		fmt.Fprintf(w, "The time was over before %d more.\n", r.skipped) //nolint:errcheck // for people
	}
	left := r.unexplained()
	slices.SortFunc(left, func(a, b verdict) int {
		return cmp.Or(strings.Compare(a.sites[0].file.rel, b.sites[0].file.rel), cmp.Compare(a.sites[0].start, b.sites[0].start))
	})
	for _, v := range left {
		from, to := v.lines()
		fmt.Fprintf(w, "\n%s:%d:%d: %s in %s: not noticed by %d tests that reach it, %d more not run\n\t- %s\n\t+ %s\n  %s\n", //nolint:errcheck // for people
			v.sites[0].file.rel, v.pos.Line, v.pos.Column, v.op, v.fn, v.reached-v.left, v.left, from, to, v.key())
	}
}
