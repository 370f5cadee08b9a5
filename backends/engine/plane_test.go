package engine_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/engine"
	"github.com/vipkit/vipkit/proxy/plan"
)

type (
	object = engine.Object[string, string]
	edit   = engine.Edit[string, string]
)

// A plane is a data plane in memory that fails as it is told to. Every value names the Service that it is of.
type plane struct {
	has map[string]string

	broken    map[*plan.Port]bool // versions that cannot be compiled
	refused   map[string]bool     // Services of which nothing can be written
	refusedID string              //  an object that cannot be made
	clings    map[string]bool     // Services of which nothing can be removed
	halfway   bool                // a refusal leaves what came before it
	failWrite int                 // the write that fails for another reason, from 1; 0 is none
	failList  error

	lists, writes int
}

var (
	errBroken = errors.New("cannot be compiled")
	errGone   = errors.New("the connection is gone")
)

func of(service string) string { return "(" + service + ")" }

func (p *plane) Compile(pl *plan.Plan, port *plan.Port, prev []object) ([]object, error) {
	var out []object
	if port == nil {
		for _, a := range pl.Config().Node.Addresses {
			out = append(out, object{ID: "node " + a.String(), Value: "here"})
		}
		return out, nil
	}
	if p.broken[port] {
		return nil, errBroken
	}
	who := of(port.Name)
	for _, f := range port.Frontends {
		switch at := fmt.Sprintf("%s:%d", f.Addr, f.Port); f.Kind {
		case plan.NodePort:
			for _, a := range pl.Config().Node.Addresses {
				out = append(out, object{ID: fmt.Sprintf("%s:%d", a, f.Port), Value: "node port of " + who, Shared: true})
			}
		case plan.ClusterIP:
			out = append(out, object{ID: at, Value: who}, object{ID: "all of " + f.Addr.String(), Value: "refuse", Shared: true})
		case plan.ExternalIP, plan.LoadBalancerIP:
			out = append(out, object{ID: at, Value: who, Shared: true, Rank: 1}, object{ID: "bound " + f.Addr.String(), Value: "yes", Shared: true})
		}
	}
	out = append(out, object{ID: "the first", Value: who, Shared: true})
	for i, e := range port.Cluster {
		out = append(out, object{ID: fmt.Sprintf("endpoint %d of %s %s", i, who, port.Port), Value: e.Addr.String() + who})
	}
	if port.AffinityTimeout > 0 {
		n := 0
		for _, o := range prev {
			if strings.HasPrefix(o.ID, "versions of ") {
				_, _ = fmt.Sscan(o.Value, &n)
			}
		}
		out = append(out, object{ID: "versions of " + port.Key.String(), Value: fmt.Sprint(n+1, who)})
	}
	return out, nil
}

func (p *plane) Equal(a, b string) bool { return a == b }

func (p *plane) List(context.Context) (iter.Seq2[string, string], error) {
	p.lists++
	if p.failList != nil {
		return nil, p.failList
	}
	return maps.All(maps.Clone(p.has)), nil
}

func (p *plane) Write(_ context.Context, edits []edit) error {
	p.writes++
	next := maps.Clone(p.has)
	if next == nil {
		next = map[string]string{}
	}
	for i, x := range edits {
		if err := p.refuses(x); err != nil {
			if p.halfway {
				p.has = next
				return errors.Join(err, engine.ErrHalfway)
			}
			return err
		}
		if p.writes == p.failWrite && i == len(edits)/2 {
			p.has = next
			return errGone
		}
		if delete(next, x.ID); x.New != nil {
			next[x.ID] = *x.New
		}
	}
	p.has = next
	return nil
}

func (p *plane) refuses(x edit) error {
	for name := range p.refused {
		if x.New != nil && strings.Contains(*x.New, of(name)) && !p.isBack(x) {
			return fmt.Errorf("%s: %w", x.ID, engine.ErrRefused)
		}
	}
	if x.New != nil && x.ID == p.refusedID {
		return fmt.Errorf("%s: %w", x.ID, engine.ErrRefused)
	}
	for name := range p.clings {
		if x.New == nil && x.Old != nil && strings.Contains(*x.Old, of(name)) {
			return fmt.Errorf("%s: %w", x.ID, engine.ErrRefused)
		}
	}
	return nil
}

// isBack reports whether an edit writes what is there already, as the reverse of a refused one may.
func (p *plane) isBack(x edit) bool { return x.New != nil && p.has[x.ID] == *x.New }

var ipv4 = corev1.IPv4Protocol
