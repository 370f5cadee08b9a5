package results

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// sample has first syncs at two sizes, in which vipkit is eight times as fast.
func sample() *Run {
	r := &Run{}
	for _, n := range []int{fewServices, manyServices} {
		id := ID{Control, "nftables", n, usual, firstSync}
		for _, factor := range []float64{1, 3, 2} {
			r.Add(id, kubeProxy, Values{Wall: 8 * factor, Heap: 100, Written: 7})
			r.Add(id, vipkit, Values{Wall: factor, Heap: 60, Written: 5})
		}
	}
	return r
}

func TestMedian(t *testing.T) {
	c := sample().Cases[0]
	if m, n := c.Median(vipkit, Wall); m != 2 || n != 3 {
		t.Errorf("median of 1, 3, 2 is %g of %d", m, n)
	}
	c.Runs[vipkit] = c.Runs[vipkit][:2]
	if m, n := c.Median(vipkit, Wall); m != 2 || n != 2 {
		t.Errorf("median of 1, 3 is %g of %d", m, n)
	}
	if m, n := c.Median(vipkit, Rate); m != 0 || n != 0 {
		t.Errorf("median of nothing is %g of %d", m, n)
	}
}

func TestSpread(t *testing.T) {
	c := &Case{Runs: map[string][]Values{}}
	if s := c.Spread(vipkit, Rate); s != 0 {
		t.Errorf("spread of nothing is %g", s)
	}
	for _, x := range []float64{100, 90, 500, 110, 120, 80, 1, 95} {
		c.Runs[vipkit] = append(c.Runs[vipkit], Values{Rate: x})
	}
	// 1 80 90 95 100 110 120 500: from 90 to 110 around 97.5.
	if s := c.Spread(vipkit, Rate); s != 20/97.5 {
		t.Errorf("spread is %g, want %g", s, 20/97.5)
	}
}

func TestRows(t *testing.T) {
	r := sample()
	r.Add(ID{Control, "nftables", fewServices, usual, metadata}, vipkit, Values{Written: 0})
	r.Add(ID{Control, "nftables", manyServices, usual, restart}, vipkit, Values{Written: 1})
	got := map[string]Row{}
	for _, row := range r.Rows() {
		got[row.Name] = row
	}
	tests := []struct {
		name       string
		done, pass bool
	}{
		{"nftables first sync, 10,000 × 10", true, true},
		{"live heap after the first sync, 10,000 × 10", true, false},
		{"update of a slice's metadata", true, true},
		{"restart over equal rules", true, false},
		{"connections a second through the last of 10,000", false, false},
	}
	for _, tt := range tests {
		if row := got[tt.name]; row.Done != tt.done || row.Pass != tt.pass {
			t.Errorf("%s: measured %t, pass %t: %s", tt.name, row.Done, row.Pass, row.Got)
		}
	}
	var b bytes.Buffer
	if r.WriteRows(&b) || !strings.Contains(b.String(), "**FAIL**") || !strings.Contains(b.String(), notMeasured) {
		t.Errorf("a run with failed and missing rows:\n%s", &b)
	}
}

func TestTables(t *testing.T) {
	var b bytes.Buffer
	sample().WriteTables(&b)
	for _, want := range []string{"nftables, 10,000 Services × 10 endpoints", "| first sync | time | 16.0 s | 2.00 s | 8.00 × | 3 |"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

func TestFormat(t *testing.T) {
	tests := []struct {
		metric Metric
		value  float64
		want   string
	}{
		{Wall, 12.34, "12.3 s"},
		{CPU, 0.0456, "45.6 ms"},
		{P99, 0.000123, "123 µs"},
		{Heap, 38.9e6, "38.9 MB"},
		{Bits, 5.76e9, "5.76 Gbit/s"},
		{Written, 1234567, "1,234,567"},
	}
	for _, tt := range tests {
		if got := tt.metric.format(tt.value); got != tt.want {
			t.Errorf("%s of %g is %q, want %q", tt.metric, tt.value, got, tt.want)
		}
	}
}

func TestFileAndPictures(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run.json")
	if err := sample().Write(file); err != nil {
		t.Fatal(err)
	}
	r, err := Read(file)
	if err != nil {
		t.Fatal(err)
	}
	r.Merge(sample())
	if _, n := r.Cases[0].Median(kubeProxy, Wall); n != 6 || len(r.Cases) != 2 {
		t.Errorf("two runs together have %d cases with %d measurements, want 2 with 6", len(r.Cases), n)
	}
	if err := r.Draw(dir); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(filepath.Join(dir, "nftables-first-sync.svg"))
	if err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(bytes.NewReader(svg)); err == nil; {
		_, err = d.Token()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("the picture is no XML: %v", err)
	}
}
