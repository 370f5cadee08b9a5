package main

import (
	"context"
	"fmt"
	"maps"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A Backend keeps the flows of a Switch equal to a plan: it is all that a data plane of
// your own needs.
type Backend struct {
	Switch *Switch
	base   *plan.Plan // what the Switch has, nil if that is not known
}

// Sync writes what the Delta says has changed, or everything if that is not known.
func (b *Backend) Sync(_ context.Context, d *plan.Delta) error {
	full := d.Full || b.base == nil || d.Base != b.base
	b.base = nil // until all is written
	have, want := map[Match]Flow{}, map[Match]Flow{}
	if full { // list, keep what is right, remove what is not wanted
		maps.Insert(have, b.Switch.Flows())
		for port := range d.New.All() {
			maps.Copy(want, flows(port))
		}
	} else { // the cost of the change
		for _, c := range d.Changes {
			for _, old := range c.Before { // all that may be in place, also of attempts that failed
				maps.Copy(have, flows(old))
			}
			maps.Copy(want, flows(c.After))
		}
	}
	if full || d.Config {
		b.Switch.SetNode(d.New)
	}
	if err := b.write(d.New, have, want); err != nil {
		return fmt.Errorf("custombackend: sync: %w", err) // the next Delta is Full
	}
	b.base = d.New
	return nil
}

// write adds first and removes then, so that an address that moves from one Service
// to another always has an owner. A flow with its endpoints is one write: nobody meets half of it.
func (b *Backend) write(p *plan.Plan, have, want map[Match]Flow) error {
	for m, f := range want {
		if err := b.Switch.Put(m, f); err != nil {
			return err
		}
	}
	for m := range have {
		_, stays := want[m]
		if stays || m.Port == 0 && p.IsClusterIP(m.Addr) { // another Service port needs it
			continue
		}
		if err := b.Switch.Delete(m); err != nil {
			return err
		}
	}
	return nil
}

// Cleanup removes all flows; the Switch is ours alone.
func (b *Backend) Cleanup(context.Context) error {
	b.base = nil
	return b.write(plan.New(plan.Config{}), maps.Collect(b.Switch.Flows()), nil)
}

// flows returns what a Service port, which may be nil, has in the Switch. There is no policy
// here: the plan says for every origin of a packet what happens to it.
func flows(port *plan.Port) map[Match]Flow {
	out := map[Match]Flow{}
	if port == nil {
		return out
	}
	for _, fe := range port.Frontends {
		out[Match{fe.Addr, port.Family, port.Protocol, fe.Port}] = Flow{port, fe}
		if fe.Kind == plan.ClusterIP { // its other ports refuse
			out[Match{Addr: fe.Addr, Family: port.Family}] = Flow{}
		}
	}
	return out
}
