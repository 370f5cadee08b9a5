// Package results keeps what was measured and makes tables, acceptance rows and pictures
// of it.
package results

import (
	"cmp"
	"slices"
)

// A Metric is one thing that is measured.
type Metric string

// The metrics. Times are in seconds, sizes in bytes.
const (
	Wall      Metric = "wall"      // time until it is done
	CPU       Metric = "cpu"       // time of the process and its children, user and system
	Written   Metric = "written"   // statements
	Heap      Metric = "heap"      // live, beyond the API objects
	PeakRSS   Metric = "peakRSS"   // of the process
	ChildRSS  Metric = "childRSS"  // of the largest child
	Allocated Metric = "allocated" // bytes of one operation
	Rate      Metric = "rate"      // a second
	P50       Metric = "p50"       // latency
	P99       Metric = "p99"
	Bits      Metric = "bits" // a second
)

// Metrics returns all of them in the order in which they are shown.
func Metrics() []Metric {
	return []Metric{Wall, CPU, Written, Heap, PeakRSS, ChildRSS, Allocated, Rate, P50, P99, Bits}
}

// Values is one measurement.
type Values map[Metric]float64

// The parts of a run.
const (
	Control  = "control plane"
	Traffic  = "data plane"
	Trackers = "trackers and plan"
)

// An ID names what was measured.
type ID struct {
	Part      string `json:"part"`
	Plane     string `json:"plane"` // nftables, iptables, or "" where it does not matter
	Services  int    `json:"services"`
	Endpoints int    `json:"endpoints"` // of each Service
	Name      string `json:"name"`      // of the step
}

// A Case has everything measured of one ID, by proxy, in the order of the run.
type Case struct {
	ID
	Runs map[string][]Values `json:"runs"`
}

// A Run is all that was measured at one time.
type Run struct {
	Machine []string `json:"machine"` // lines that describe it
	Command string   `json:"command"`
	Cases   []*Case  `json:"cases"`
}

// Add adds one measurement.
func (r *Run) Add(id ID, proxy string, v Values) {
	c := r.Find(id)
	if c == nil {
		c = &Case{ID: id, Runs: map[string][]Values{}}
		r.Cases = append(r.Cases, c)
	}
	c.Runs[proxy] = append(c.Runs[proxy], v)
}

// Find returns the case of an ID, nil if nothing was measured.
func (r *Run) Find(id ID) *Case {
	i := slices.IndexFunc(r.Cases, func(c *Case) bool { return c.ID == id })
	if i < 0 {
		return nil
	}
	return r.Cases[i]
}

// Median returns the median of a metric and how many measurements it is of; zero if there
// are none. It may be asked of nil.
func (c *Case) Median(proxy string, m Metric) (median float64, n int) {
	all := c.sorted(proxy, m)
	if len(all) == 0 {
		return 0, 0
	}
	half := len(all) / 2
	if len(all)%2 == 0 {
		return (all[half-1] + all[half]) / 2, len(all)
	}
	return all[half], len(all)
}

// Spread returns how far the middle half of the measurements reaches, as a part of the
// median: what is between two medians that differ by less is noise.
func (c *Case) Spread(proxy string, m Metric) float64 {
	all := c.sorted(proxy, m)
	median, n := c.Median(proxy, m)
	if n == 0 || median == 0 {
		return 0
	}
	return (all[n-1-n/4] - all[n/4]) / median
}

func (c *Case) sorted(proxy string, m Metric) []float64 {
	if c == nil {
		return nil
	}
	var all []float64
	for _, v := range c.Runs[proxy] {
		if x, ok := v[m]; ok {
			all = append(all, x)
		}
	}
	slices.Sort(all)
	return all
}

// compareIDs sorts by part, plane and size; cases keep the order of the run within one.
func compareIDs(a, b ID) int {
	return cmp.Or(cmp.Compare(a.Part, b.Part), -cmp.Compare(a.Plane, b.Plane), cmp.Compare(a.Services, b.Services), cmp.Compare(a.Endpoints, b.Endpoints))
}
