// Package run decides what is measured how often, and in which order: whatever is compared
// is measured in turns, so that a machine that is slow for a while is slow for both.
package run

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/vipkit/vipkit/bench/control"
	"github.com/vipkit/vipkit/bench/proxies"
	"github.com/vipkit/vipkit/bench/results"
	"github.com/vipkit/vipkit/bench/worker"
)

// Options say what is measured.
type Options struct {
	Parts        []string // of results.Control, results.Traffic, results.Trackers
	Planes       []string
	Sizes        []int // numbers of Services for the control plane
	TrafficSizes []int // and for the data plane
	Endpoints    int   // of each Service
	Rounds       int   // how often everything is measured

	// KubeMost is the largest number of Services that kube-proxy is measured with. At
	// KubeSlow Services and more, and with iptables always, it is measured KubeRounds
	// times, without the steps that write everything again unless Full.
	KubeMost, KubeSlow, KubeRounds int
	Full                           bool

	Profile string    // folder for profiles of first syncs, "" for none; the last round counts
	Log     io.Writer // progress
	Save    func()    // called after each round, so that a run that is cut short is not lost
}

// Run measures everything and adds it to r. What was measured before an error is kept.
func Run(o Options, r *results.Run) error {
	for _, part := range o.Parts {
		var err error
		switch part {
		case results.Control:
			err = o.control(r)
		case results.Traffic:
			err = o.traffic(r)
		case results.Trackers:
			o.trackers(r)
		default:
			err = fmt.Errorf("run: no part %q", part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (o Options) logf(format string, args ...any) { fmt.Fprintf(o.Log, format+"\n", args...) }

// control measures all sizes in each round, so that they can be compared as well.
func (o Options) control(r *results.Run) error {
	for _, plane := range o.Planes {
		for round := range o.Rounds {
			for _, n := range o.Sizes {
				if plane == proxies.IPTables && n > iptablesMost {
					continue
				}
				o.logf("%s, %s, %d Services, round %d of %d", results.Control, plane, n, round+1, o.Rounds)
				spec := worker.Spec{Part: results.Control, Plane: plane, Services: n, Endpoints: o.Endpoints, Profile: o.Profile}
				if err := o.controlRound(r, spec, round); err != nil {
					return err
				}
				o.Save()
			}
		}
	}
	return nil
}

// iptablesMost is where iptables ends: larger clusters are for nftables.
const iptablesMost = 5_000

// often is how many times the quick steps are run on each worker.
const often = 5

// controlRound runs all steps once with both proxies; who begins alternates.
func (o Options) controlRound(r *results.Run, spec worker.Spec, round int) (err error) {
	names := o.proxies(spec, round)
	workers := map[string]*worker.Worker{}
	defer func() { err = errors.Join(err, closeAll(workers)) }()
	for _, name := range names {
		spec.Proxy = name
		if workers[name], err = worker.Start(spec); err != nil {
			return err
		}
	}
	for _, step := range inOrder() {
		for _, name := range names {
			if name == proxies.KubeProxy && o.slow(spec) && !o.Full && control.WritesAll(step) {
				continue
			}
			v, err := workers[name].Run(step)
			if err != nil {
				return fmt.Errorf("run: %s, %s, %d Services: %w", name, spec.Plane, spec.Services, err)
			}
			r.Add(id(spec, step), name, v)
		}
	}
	return nil
}

// inOrder returns all steps of a round, quick groups several times.
func inOrder() []string {
	var steps []string
	for _, group := range control.Groups() {
		for range repeats(group) {
			steps = append(steps, group...)
		}
	}
	return steps
}

// repeats is one for what takes long, and for what can only be done once.
func repeats(group []string) int {
	if slices.ContainsFunc(group, func(s string) bool { return s == control.First || control.WritesAll(s) }) {
		return 1
	}
	return often
}

// slow says whether kube-proxy takes minutes.
func (o Options) slow(s worker.Spec) bool {
	return s.Plane == proxies.IPTables || s.Services >= o.KubeSlow
}

// proxies returns who takes part in a round, in the order of this round.
func (o Options) proxies(s worker.Spec, round int) []string {
	if s.Services > o.KubeMost || s.Plane == proxies.IPTables && s.Services > 1_000 && !o.Full || o.slow(s) && round >= o.KubeRounds {
		return []string{proxies.Vipkit}
	}
	names := []string{proxies.KubeProxy, proxies.Vipkit}
	if round%2 == 1 {
		slices.Reverse(names)
	}
	return names
}

func id(s worker.Spec, step string) results.ID {
	return results.ID{Part: s.Part, Plane: s.Plane, Services: s.Services, Endpoints: s.Endpoints, Name: step}
}

func closeAll(workers map[string]*worker.Worker) error {
	var errs []error
	for _, w := range workers {
		if w != nil {
			errs = append(errs, w.Close())
		}
	}
	return errors.Join(errs...)
}
