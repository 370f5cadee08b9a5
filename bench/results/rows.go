package results

import (
	"fmt"
	"io"
)

// A Row is one requirement of the library.
type Row struct {
	Name string
	Want string
	Got  string // "not measured" if it was not
	Pass bool
	Done bool // it was measured
}

// The names that the rows refer to are those of other packages; a row whose case is missing says
// "not measured", so a wrong one would be seen.
const (
	kubeProxy = "kube-proxy"
	vipkit    = "vipkit"

	firstSync     = "first sync"
	oneEndpoint   = "one endpoint changed"
	metadata      = "metadata of a slice"
	restart       = "restart"
	flip          = "one endpoint flips"
	lastOfMany    = "TCP connections through the last Service"
	usual         = 10 // endpoints of a Service
	largeService  = 5_000
	fewServices   = 1_000
	manyServices  = 10_000
	mostServices  = 50_000
	notMeasured   = "not measured"
	flatTolerance = 1.5
)

// Rows judges the run.
func (r *Run) Rows() []Row {
	control := func(plane string, services int, step string) *Case {
		return r.Find(ID{Control, plane, services, usual, step})
	}
	last := r.Find(ID{Traffic, "nftables", manyServices, usual, lastOfMany})
	rows := []Row{
		atMost("nftables first sync, 10,000 × 10", control("nftables", manyServices, firstSync), Wall, 8),
		atMost("nftables one endpoint changed, 10,000 × 10", control("nftables", manyServices, oneEndpoint), Wall, 15),
		flat(control("nftables", fewServices, oneEndpoint), control("nftables", mostServices, oneEndpoint)),
		r.nothingWritten("update of a slice's metadata", metadata),
		r.nothingWritten("restart over equal rules", restart),
		atMost("iptables (nft) first sync, 1,000 × 10", control("iptables", fewServices, firstSync), Wall, 8),
		atMost("iptables (nft) one endpoint changed, 1,000 × 10", control("iptables", fewServices, oneEndpoint), Wall, 5),
		atMost("live heap after the first sync, 10,000 × 10", control("nftables", manyServices, firstSync), Heap, 2),
		atMost("one of 5,000 endpoints flips, trackers + plan", r.Find(ID{Trackers, "", 1, largeService, flip}), Wall, 10),
		atLeast("connections a second through the last of 10,000", last, Rate),
	}
	return rows
}

// atMost wants ours to be at most 1/part of theirs.
func atMost(name string, c *Case, m Metric, part float64) Row {
	row := Row{Name: name, Want: fmt.Sprintf("≤ 1/%g", part), Got: notMeasured}
	theirs, n := c.Median(kubeProxy, m)
	ours, k := c.Median(vipkit, m)
	if n > 0 && k > 0 {
		row.Done, row.Pass = true, ours*part <= theirs
		row.Got = fmt.Sprintf("1/%.1f (%s of %s)", theirs/ours, m.format(ours), m.format(theirs))
	}
	return row
}

// atLeast wants ours to be no less than theirs. It tells how much single measurements differ, as the
// two may be equal.
func atLeast(name string, c *Case, m Metric) Row {
	row := Row{Name: name, Want: "≥ its figure", Got: notMeasured}
	theirs, n := c.Median(kubeProxy, m)
	ours, k := c.Median(vipkit, m)
	if n > 0 && k > 0 {
		row.Done, row.Pass = true, ours >= theirs
		spread := max(c.Spread(kubeProxy, m), c.Spread(vipkit, m))
		row.Got = fmt.Sprintf("× %.2f (%s and %s; turns differ by %.0f %%)", ours/theirs, m.format(ours), m.format(theirs), 100*spread)
	}
	return row
}

// flat wants the cost of a change not to grow with the number of Services.
func flat(few, many *Case) Row {
	row := Row{Name: "nftables one endpoint changed, 50,000 and 1,000", Want: fmt.Sprintf("≤ %g ×", flatTolerance), Got: notMeasured}
	small, n := few.Median(vipkit, Wall)
	large, k := many.Median(vipkit, Wall)
	if n > 0 && k > 0 {
		row.Done, row.Pass = true, large <= flatTolerance*small
		row.Got = fmt.Sprintf("× %.2f (%s and %s)", large/small, Wall.format(large), Wall.format(small))
	}
	return row
}

// nothingWritten wants a step to write no statement at any size, in any run.
func (r *Run) nothingWritten(name, step string) Row {
	row := Row{Name: name, Want: "nothing written", Got: notMeasured, Pass: true}
	total := 0.0
	for _, c := range r.Cases {
		if c.Part != Control || c.Name != step {
			continue
		}
		for _, v := range c.Runs[vipkit] {
			row.Done = true
			total += v[Written]
		}
	}
	if row.Done {
		row.Got, row.Pass = fmt.Sprintf("%g statements", total), total == 0
	}
	return row
}

// WriteRows prints the rows and reports whether none failed.
func (r *Run) WriteRows(w io.Writer) bool {
	fmt.Fprintln(w, "| requirement | wanted | measured | |\n|---|---|---|---|")
	good := true
	for _, row := range r.Rows() {
		verdict := "pass"
		switch {
		case !row.Done:
			verdict = ""
		case !row.Pass:
			verdict, good = "**FAIL**", false
		}
		fmt.Fprintf(w, "| %s | %s | %s | %s |\n", row.Name, row.Want, row.Got, verdict)
	}
	return good
}
