package run

import (
	"errors"
	"fmt"

	"github.com/vipkit/vipkit/bench/cluster"
	"github.com/vipkit/vipkit/bench/proxies"
	"github.com/vipkit/vipkit/bench/results"
	"github.com/vipkit/vipkit/bench/trackers"
	"github.com/vipkit/vipkit/bench/traffic"
	"github.com/vipkit/vipkit/bench/worker"
)

// moreOften is for traffic: a measurement is short, and noisier than others.
const moreOften = 2

// traffic keeps both proxies' labs up and measures them in turns, which a whole round
// apart would not be fair.
func (o Options) traffic(r *results.Run) error {
	for _, n := range o.TrafficSizes {
		spec := worker.Spec{Part: results.Traffic, Plane: proxies.NFTables, Services: n, Endpoints: o.Endpoints}
		if err := o.trafficAt(r, spec); err != nil {
			return err
		}
	}
	return nil
}

func (o Options) trafficAt(r *results.Run, spec worker.Spec) (err error) {
	workers := map[string]*worker.Worker{}
	defer func() { err = errors.Join(err, closeAll(workers)) }()
	for _, name := range []string{proxies.KubeProxy, proxies.Vipkit} {
		o.logf("%s, %d Services, set up %s", spec.Part, spec.Services, name)
		spec.Proxy = name
		if workers[name], err = worker.Start(spec); err != nil {
			return err
		}
		if _, err = workers[name].Run(traffic.Setup); err != nil {
			return err
		}
	}
	rounds := moreOften * o.Rounds
	for round := range rounds {
		o.logf("%s, %d Services, round %d of %d", spec.Part, spec.Services, round+1, rounds)
		for _, step := range traffic.Steps() {
			for _, name := range turns(round) {
				v, err := workers[name].Run(step)
				if err != nil {
					return fmt.Errorf("run: %s: %w", name, err)
				}
				r.Add(id(spec, step), name, v)
			}
		}
		o.Save()
	}
	return nil
}

func turns(round int) []string {
	if round%2 == 1 {
		return []string{proxies.Vipkit, proxies.KubeProxy}
	}
	return []string{proxies.KubeProxy, proxies.Vipkit}
}

// trackers runs in this process: nothing is written.
func (o Options) trackers(r *results.Run) {
	const services, slices, size = 10_000, 50, 100
	o.trackersOn(r, cluster.New(services, o.Endpoints), results.ID{Part: results.Trackers, Services: services, Endpoints: o.Endpoints})
	o.trackersOn(r, cluster.Large(slices, size), results.ID{Part: results.Trackers, Services: 1, Endpoints: slices * size})
}

// flips is how many are averaged for one measurement.
const flips = 20

func (o Options) trackersOn(r *results.Run, c *cluster.Cluster, id results.ID) {
	for round := range o.Rounds {
		o.logf("%s, %d Services, round %d of %d", id.Part, id.Services, round+1, o.Rounds)
		for _, name := range turns(round) {
			b, v := trackers.Measure(name, c)
			id.Name = trackers.Load
			r.Add(id, name, v)
			id.Name = trackers.Flip
			r.Add(id, name, b.Flip(flips))
		}
		o.Save()
	}
}
