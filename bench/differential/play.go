package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/bench/wholeproxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A player plays clusters, one after the other, and keeps what was found.
type player struct {
	*comparison

	out      io.Writer // differences, a line of JSON each
	steps    int       // changes of each cluster
	limit    int       // questions for each state
	sabotage string    // nft statements that break our nftables after each change

	states  int
	last    memory         // of the last state of the cluster
	byCause map[string]int // by id, "" unexplained
}

// contenders makes the networks. Ours in iptables is slower and may be left out.
func contenders(ctx context.Context, iptables bool) ([]contender, error) {
	names := []string{"kube-proxy", "vipkit-nftables"}
	if iptables {
		names = append(names, "vipkit-iptables")
	}
	var out []contender
	for _, name := range names {
		lab, err := newLab(ctx)
		if err != nil {
			return nil, errors.Join(err, closeAll(out))
		}
		out = append(out, contender{name: name, lab: lab})
	}
	return out, nil
}

func closeAll(all []contender) error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.lab.Close())
	}
	return errors.Join(errs...)
}

// cluster plays one cluster: compare, change, compare.
func (p *player) cluster(ctx context.Context, seed uint64) (err error) {
	cl := newCluster(seed)
	for i := range p.contenders {
		one := &p.contenders[i]
		switch one.name {
		case "kube-proxy":
			one.proxy = &wholeproxy.KubeProxy{Plane: "nftables"}
		case "vipkit-nftables":
			one.proxy = &wholeproxy.Vipkit{Plane: "nftables"}
		default:
			one.proxy = &wholeproxy.Vipkit{Plane: "iptables"}
		}
		if err := errors.Join(forget(ctx, one.lab), setLocal(ctx, one.lab, "add", cl.localVIPs)); err != nil {
			return err
		}
	}
	defer func() { err = errors.Join(err, p.end(ctx, cl)) }()
	var before map[string]*corev1.Service
	var log []string
	p.last = memory{}
	for step := range p.steps + 1 {
		if step > 0 {
			before = maps.Clone(cl.services)
			log = cl.change()
		}
		if d := p.set(ctx, cl); d != nil {
			return p.report(*d, seed, step, log)
		}
		diffs, err := p.compare(ctx, cl, before, rand.New(rand.NewPCG(seed, uint64(step)))) //nolint:gosec // to be played again
		if err != nil {
			return err
		}
		for _, d := range diffs {
			if err := p.report(d, seed, step, log); err != nil {
				return err
			}
		}
	}
	return nil
}

// set hands the state to all contenders, and returns a difference if one cannot write it.
func (p *player) set(ctx context.Context, cl *cluster) *difference {
	p.states++
	for _, one := range p.contenders {
		err := one.lab.Namespace(netlab.NodeName).Do(func() error {
			if err := one.proxy.Set(ctx, cl.state()); err != nil || p.sabotage == "" || one.name != "vipkit-nftables" {
				return err
			}
			return run(ctx, p.sabotage+"\n", "nft", "-f", "-")
		})
		if err != nil {
			return &difference{Kind: "sync", Got: map[string]string{one.name: err.Error()}}
		}
	}
	return nil
}

// end stops the proxies and makes the node's addresses what they were. Ours must leave nothing behind.
func (p *player) end(ctx context.Context, cl *cluster) error {
	var errs []error
	for _, one := range p.contenders {
		errs = append(errs, one.lab.Namespace(netlab.NodeName).Do(func() error {
			return errors.Join(one.proxy.Stop(ctx), one.proxy.Cleanup(ctx))
		}), setLocal(ctx, one.lab, "del", cl.localVIPs))
	}
	return errors.Join(errs...)
}

// compare asks all questions about one state.
func (p *player) compare(ctx context.Context, cl *cluster, before map[string]*corev1.Service, r *rand.Rand) ([]difference, error) {
	pl, err := cl.fresh()
	if err != nil {
		return nil, err
	}
	plain, sticky := p.questions(cl, pl, before, r)
	diffs := p.packets(plain)
	stuck, now := p.sticky(sticky, p.last)
	p.last = now
	diffs = append(diffs, stuck...)
	for _, q := range sticky {
		covered := p.counts["pools covered"]
		diffs = append(diffs, p.coverage(cl, pl, q)...)
		if p.counts["pools covered"] > covered {
			break
		}
	}
	diffs = append(diffs, p.health(ctx, cl)...)
	asked := slices.Concat(plain, sticky)
	for i := range diffs {
		j := slices.IndexFunc(asked, func(q *question) bool { return q.probe.String() == diffs[i].Probe })
		if j >= 0 {
			diffs[i].ID = explain(diffs[i], asked[j], pl)
		}
	}
	return diffs, nil
}

// questions draws what to ask: pairs of a source and a target, not too many of those that are slow to answer.
func (p *player) questions(cl *cluster, pl *plan.Plan, before map[string]*corev1.Service, r *rand.Rand) (plain, sticky []*question) {
	var all []probe
	for _, t := range cl.targets(before) {
		for _, s := range sources(t.to.Addr().Is4()) {
			s.to, s.proto = t.to, t.proto
			all = append(all, s)
		}
	}
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	some := p.limit / 4
	left := map[string]int{timeout: some, refused: some}
	for _, one := range all {
		if len(plain)+len(sticky) >= p.limit {
			break
		}
		if one.from != netlab.NodeName && one.from == hostOf(one.to.Addr()) {
			continue // does not leave its host
		}
		q := &question{probe: one, expectation: cl.expect(pl, one)}
		slow := false
		for outcome := range left {
			if q.want[outcome] {
				left[outcome]--
				slow = left[outcome] < 0
			}
		}
		switch affinity := q.trace.Port != nil && q.trace.Port.AffinityTimeout > 0; {
		case slow:
		case !affinity:
			plain = append(plain, q)
		case len(sticky) < some:
			sticky = append(sticky, q)
		}
	}
	return plain, sticky
}

// report writes one difference and counts it.
func (p *player) report(d difference, seed uint64, step int, log []string) error {
	d.Seed, d.Step = seed, step
	p.byCause[d.ID]++
	line, err := json.Marshal(struct {
		difference
		Changes []string `json:"changes,omitempty"`
	}{d, log})
	if err != nil {
		return err
	}
	if d.ID == "" {
		fmt.Printf("seed %d step %d: %s %s: %v, the plan says %s (%s)\n", seed, step, d.Kind, d.Probe, d.Got, d.Plan, d.Why)
	}
	_, err = p.out.Write(append(line, '\n'))
	return err
}
