package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
	"github.com/vipkit/vipkit/internal/conformance"
)

// A row counts the inputs of one area, of upstream's tests or of ours.
type row struct{ agree, documented, leftOut, unexplained int }

func (r row) inputs() int { return r.agree + r.documented + r.leftOut + r.unexplained }

type rowKey struct {
	area   string
	random bool
}

// A report has the results of a run.
type report struct {
	version  string
	short    bool
	known    map[string]difference
	records  []shadow.Record // of differences
	rows     map[rowKey]row
	occurred map[string]int // by "area/id"
}

// read adds the records of a log; one that is missing is of a suite that recorded nothing.
func (r *report) read(path string) error {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	in := json.NewDecoder(bufio.NewReader(file))
	for {
		var rec shadow.Record
		if err := in.Decode(&rec); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
		r.add(rec)
	}
}

func (r *report) add(rec shadow.Record) {
	if r.rows == nil {
		r.rows, r.occurred = map[rowKey]row{}, map[string]int{}
	}
	key := rowKey{area: rec.Area, random: rec.Random}
	count := r.rows[key]
	id := rec.Area + "/" + rec.ID
	d, known := r.known[id]
	switch {
	case rec.ID == "":
		count.agree += rec.N
	case known && d.leftOut:
		count.leftOut += rec.N
	case known:
		count.documented += rec.N
	default:
		count.unexplained += rec.N
	}
	r.rows[key] = count
	if rec.ID != "" {
		r.occurred[id] += rec.N
		r.records = append(r.records, rec)
	}
}

func (r *report) keys() []rowKey {
	return slices.SortedFunc(maps.Keys(r.rows), func(a, b rowKey) int {
		if c := strings.Compare(a.area, b.area); c != 0 || a.random == b.random {
			return c
		}
		if b.random {
			return -1
		}
		return 1
	})
}

// exampleBound is how many examples of an unexplained difference are shown.
const exampleBound = 5

// print writes the table, how often each difference occurred, and examples of the unexplained.
func (r *report) print(w io.Writer) {
	fmt.Fprintf(w, "%-18s %-7s %9s %9s %11s %9s %12s\n", "area", "from", "inputs", "agree", "documented", "left out", "unexplained")
	for _, k := range r.keys() {
		c := r.rows[k]
		fmt.Fprintf(w, "%-18s %-7s %9d %9d %11d %9d %12d\n", k.area, k.from(), c.inputs(), c.agree, c.documented, c.leftOut, c.unexplained)
	}
	fmt.Fprintln(w)
	for _, id := range slices.Sorted(maps.Keys(r.occurred)) {
		fmt.Fprintf(w, "%9d %s\n", r.occurred[id], id)
	}
	shown := map[string]int{}
	for _, rec := range r.records {
		id := rec.Area + "/" + rec.ID
		if _, known := r.known[id]; known || rec.Detail == "" || shown[id] == exampleBound {
			continue
		}
		shown[id]++
		fmt.Fprintf(w, "\n%s in %s: %s\n", id, rec.Test, rec.Detail)
	}
}

func (k rowKey) from() string {
	if k.random {
		return "random"
	}
	return "tests"
}

// check returns an error for what is not as the differences say. Whether each reason is of use
// only all suites can tell.
func (r *report) check(all bool) error {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(r.occurred)) {
		if _, known := r.known[id]; !known {
			errs = append(errs, fmt.Errorf("%s: %d differences without a reason", id, r.occurred[id]))
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.known)) {
		if all && r.occurred[id] == 0 && !(r.short && r.known[id].whole) {
			errs = append(errs, fmt.Errorf("%s: has a reason and does not occur", id))
		}
	}
	return errors.Join(errs...)
}

// section is where the tables stand in the document.
func section() conformance.Section { return conformance.Section{Name: "upstream", By: "make upstream"} }

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Unit tests of k8s.io/kubernetes %s, and random objects and packets.\n\n", r.version)
	b.WriteString("| area | from | inputs | agree | documented differences | left out | unexplained |\n|---|---|--:|--:|--:|--:|--:|\n")
	for _, k := range r.keys() {
		c := r.rows[k]
		fmt.Fprintf(&b, "| %s | %s | %d | %d | %d | %d | %d |\n", k.area, k.from(), c.inputs(), c.agree, c.documented, c.leftOut, c.unexplained)
	}
	b.WriteString("\n| difference | times | why |\n|---|--:|---|\n")
	for _, id := range slices.Sorted(maps.Keys(r.occurred)) {
		fmt.Fprintf(&b, "| %s | %d | %s |\n", id, r.occurred[id], r.known[id].reason)
	}
	return b.String()
}
