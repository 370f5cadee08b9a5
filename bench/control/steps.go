package control

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipkit/vipkit/bench/cluster"
	"github.com/vipkit/vipkit/bench/proxies"
	"github.com/vipkit/vipkit/bench/results"
	"github.com/vipkit/vipkit/bench/worker"
)

// The steps. First must come first, and once; the others may be repeated.
const (
	First    = "first sync"
	NoOp     = "no change"
	Metadata = "metadata of a slice"
	Endpoint = "one endpoint changed"
	Added    = "one Service added"
	Removed  = "that Service removed"
	Hundred  = "100 Services changed"
	Zone     = "zone of the node"
	Restart  = "restart"
)

// Groups returns the steps in the order in which they are run. Those of one group belong
// together and can be repeated together, but for First, which comes once.
func Groups() [][]string {
	return [][]string{{First}, {NoOp}, {Metadata}, {Endpoint}, {Added, Removed}, {Hundred}, {Zone}, {Restart}}
}

// WritesAll says whether kube-proxy writes all its rules again in a step.
func WritesAll(step string) bool { return step == Zone || step == Restart }

// many is how many Services the step Hundred changes.
const many = 100

// A Stage is one proxy and the cluster around it.
type Stage struct {
	spec    worker.Spec
	cluster *cluster.Cluster
	proxy   proxies.Proxy
	profile profiler
	next    int // counts changes, so that they come to different Services
	zone    int
	svc     *corev1.Service // the one that Added added
	slice   *discoveryv1.EndpointSlice
}

// New returns a Stage on which nothing has happened yet.
func New(spec worker.Spec) (*Stage, error) {
	profile := newProfiler(spec.Profile, spec.Proxy, spec.Plane, strconv.Itoa(spec.Services))
	p, err := proxies.New(spec.Proxy, spec.Plane)
	return &Stage{spec: spec, proxy: p, profile: profile, cluster: cluster.New(spec.Services, spec.Endpoints)}, err
}

// Run prepares a step and measures it.
func (s *Stage) Run(step string) (results.Values, error) {
	if step == First {
		return s.first()
	}
	do, err := s.prepare(step)
	if err != nil {
		return nil, err
	}
	runtime.GC() // so that no step pays for the garbage of another
	return s.timed(do)
}

// first measures memory as well. The objects live on, as in an informer's cache, and are
// not counted.
func (s *Stage) first() (results.Values, error) {
	before := liveHeap()
	if err := s.profile.start(); err != nil {
		return nil, err
	}
	children := watchChildren()
	v, err := s.timed(func() error { return s.proxy.Start(s.cluster.Services, s.cluster.Slices) })
	if rss := children(); rss > 0 { // a quick child is not seen
		v[results.ChildRSS] = rss
	}
	v[results.PeakRSS] = peakRSS("self")
	err = errors.Join(err, s.profile.stop())
	v[results.Heap] = liveHeap() - before
	err = errors.Join(err, s.profile.heap())
	if err == nil && v[results.Written] < float64(s.spec.Services) {
		err = fmt.Errorf("only %g statements for %d Services", v[results.Written], s.spec.Services)
	}
	return v, err
}

// timed measures do, which may exchange the proxy.
func (s *Stage) timed(do func() error) (results.Values, error) {
	s.proxy.Written()
	cpu, start := cpuTime(), time.Now()
	err := do()
	wall, used := time.Since(start), cpuTime()-cpu
	return results.Values{
		results.Wall:    wall.Seconds(),
		results.CPU:     used.Seconds(),
		results.Written: float64(s.proxy.Written()),
	}, err
}

// prepare makes the objects of a step, so that only their delivery is measured.
func (s *Stage) prepare(step string) (func() error, error) {
	switch step {
	case NoOp:
		return s.proxy.Sync, nil
	case Metadata:
		return s.slices(1, s.cluster.ChangeMetadata), nil
	case Endpoint:
		return s.slices(1, s.cluster.ChangeEndpoint), nil
	case Hundred:
		return s.slices(many, s.cluster.ChangeEndpoint), nil
	case Added:
		return s.added(), nil
	case Removed:
		return s.removed()
	case Zone:
		s.zone++
		return func() error { s.proxy.SetZone(cluster.Zone(s.zone)); return s.proxy.Sync() }, nil
	case Restart:
		return s.restart, nil
	default:
		return nil, fmt.Errorf("no step %q", step)
	}
}

type slicePair struct{ before, after *discoveryv1.EndpointSlice }

func (s *Stage) slices(n int, change func(i int) (before, after *discoveryv1.EndpointSlice)) func() error {
	pairs := make([]slicePair, 0, n)
	for range n {
		// A stride that shares no factor with the usual sizes, and avoids hints.
		s.next += 77
		before, after := change(s.next % len(s.cluster.Services))
		pairs = append(pairs, slicePair{before, after})
	}
	return func() error {
		for _, p := range pairs {
			s.proxy.UpdateSlice(p.before, p.after)
		}
		return s.proxy.Sync()
	}
}

func (s *Stage) added() func() error {
	s.svc, s.slice = s.cluster.Extra()
	return func() error {
		s.proxy.AddService(s.svc)
		s.proxy.AddSlice(s.slice)
		return s.proxy.Sync()
	}
}

func (s *Stage) removed() (func() error, error) {
	if s.svc == nil {
		return nil, errors.New("no Service was added before")
	}
	return func() error {
		s.proxy.DeleteService(s.svc)
		s.proxy.DeleteSlice(s.slice)
		s.svc = nil
		return s.proxy.Sync()
	}, nil
}

// restart is a new proxy over the rules of the old one.
func (s *Stage) restart() error {
	p, err := proxies.New(s.spec.Proxy, s.spec.Plane)
	if err != nil {
		return err
	}
	s.proxy = p
	s.proxy.SetZone(cluster.Zone(s.zone))
	return p.Start(s.cluster.Services, s.cluster.Slices)
}
