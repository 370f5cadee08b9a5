package results

import (
	"fmt"
	"io"
	"slices"
	"strconv"
)

// label names a metric in a table.
func (m Metric) label() string {
	switch m {
	case Wall:
		return "time"
	case CPU:
		return "CPU time"
	case Written:
		return "statements"
	case Heap:
		return "live heap"
	case PeakRSS:
		return "peak memory"
	case ChildRSS:
		return "peak memory of a child"
	case Allocated:
		return "allocated"
	case Rate:
		return "a second"
	case P50:
		return "median latency"
	case P99:
		return "99th percentile"
	case Bits:
		return "throughput"
	}
	return string(m)
}

// moreIsBetter says in which direction a metric is good.
func (m Metric) moreIsBetter() bool { return m == Rate || m == Bits }

// format writes a value with its unit.
func (m Metric) format(v float64) string {
	switch m {
	case Wall, CPU, P50, P99:
		return seconds(v)
	case Heap, PeakRSS, ChildRSS, Allocated:
		return scaled(v, "B")
	case Bits:
		return scaled(v, "bit/s")
	case Written, Rate:
	}
	return thousands(v)
}

func seconds(v float64) string {
	switch {
	case v >= 1:
		return short(v) + " s"
	case v >= 1e-3:
		return short(v*1e3) + " ms"
	default:
		return short(v*1e6) + " µs"
	}
}

func scaled(v float64, unit string) string {
	for _, prefix := range []string{"", "k", "M"} {
		if v < 1000 {
			return short(v) + " " + prefix + unit
		}
		v /= 1000
	}
	return short(v) + " G" + unit
}

// short keeps three digits.
func short(v float64) string {
	switch {
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 10:
		return strconv.FormatFloat(v, 'f', 1, 64)
	default:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
}

// thousands writes a whole number with commas.
func thousands(v float64) string {
	s := strconv.FormatFloat(v, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// WriteTables prints every case as Markdown, one table for each part, plane and size. The ratio
// is how many times better vipkit is.
func (r *Run) WriteTables(w io.Writer) {
	cases := slices.Clone(r.Cases)
	slices.SortStableFunc(cases, func(a, b *Case) int { return compareIDs(a.ID, b.ID) })
	var last ID
	for _, c := range cases {
		group := c.ID
		group.Name = ""
		if group != last {
			fmt.Fprintf(w, "\n### %s\n\n| | | kube-proxy | vipkit | ratio | runs |\n|---|---|--:|--:|--:|--:|\n", group.title())
			last = group
		}
		c.write(w)
	}
}

func (id ID) title() string {
	size := fmt.Sprintf("%s Services × %s endpoints", thousands(float64(id.Services)), thousands(float64(id.Endpoints)))
	if id.Plane != "" {
		return fmt.Sprintf("%s, %s, %s", id.Part, id.Plane, size)
	}
	return fmt.Sprintf("%s, %s", id.Part, size)
}

func (c *Case) write(w io.Writer) {
	name := c.Name
	for _, m := range Metrics() {
		theirs, n := c.Median(kubeProxy, m)
		ours, k := c.Median(vipkit, m)
		if n+k == 0 {
			continue
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s |\n", name, m.label(),
			cell(m, theirs, n), cell(m, ours, k), ratio(m, theirs, ours, n > 0 && k > 0), counts(n, k))
		name = "" // once is enough
	}
}

func cell(m Metric, v float64, n int) string {
	if n == 0 {
		return "–"
	}
	return m.format(v)
}

func ratio(m Metric, theirs, ours float64, both bool) string {
	if m.moreIsBetter() {
		theirs, ours = ours, theirs
	}
	if !both || ours == 0 || theirs == 0 {
		return ""
	}
	return short(theirs/ours) + " ×"
}

func counts(n, k int) string {
	if n == k {
		return strconv.Itoa(n)
	}
	return fmt.Sprintf("%d, %d", n, k)
}
