package plan

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"
)

// A Cursor remembers what one consumer may have in place, and so makes its
// Deltas. The zero value knows nothing: its first Delta is Full. A Cursor is not
// safe for concurrent use.
//
// For one consumer, call Note with the Diff of every Update, then Delta with the
// newest Plan, let the consumer do it, and call Done. Nothing that was noted is
// forgotten before Done acknowledged a Delta with it, even if other Notes come in
// between or a Delta is thrown away. A Plan made by [Plan.Hold] needs no Note of
// the ports held: the Cursor finds them, and finds them again when they are let go.
type Cursor struct {
	base *Plan // nil until something was acknowledged

	// waiting came since the last Delta was made, asked is in that Delta.
	waiting, asked notes

	// unsure are the ports of which more than base's version may be in place.
	unsure map[Key]unsure

	// later is what Postpone was given; postponed are the ports of unsure that the last Delta
	// leaves out.
	later     func(Key) bool
	postponed map[Key]struct{}
}

// notes is what is to be looked at.
type notes struct {
	full   bool
	ports  map[Key]struct{}
	health map[types.NamespacedName]struct{}
}

// unsure is what may be in place of a port that was attempted and failed.
type unsure struct {
	acknowledged *Port   // nil if the port was not there
	versions     []*Port // all that may be there, without nil
	wanted       *Port   // what it was to be when a PartialError named it
}

// attempt returns u after a failed attempt to reach a version, which may be nil.
func (u unsure) attempt(p *Port) unsure {
	if p != nil && !slices.ContainsFunc(u.versions, p.equal) {
		u.versions = append(slices.Clip(u.versions), p)
	}
	return u
}

// Note records what Update said has changed since the last Note.
func (c *Cursor) Note(d Diff) {
	for _, k := range d.Ports {
		c.waiting.addPort(k)
	}
	for _, n := range d.Health {
		c.waiting.addHealth(n)
	}
}

func (n *notes) addPort(k Key) {
	if n.ports == nil {
		n.ports = map[Key]struct{}{}
	}
	n.ports[k] = struct{}{}
}

func (n *notes) addHealth(name types.NamespacedName) {
	if n.health == nil {
		n.health = map[types.NamespacedName]struct{}{}
	}
	n.health[name] = struct{}{}
}

// Reset makes the next Delta Full: what is in place became unknown.
func (c *Cursor) Reset() { c.waiting.full = true }

// Postpone leaves ports for which later is true out of the next Delta, if the last PartialError
// that could have named them did, so that they cost nothing until it is time to try them again. A
// port is in the Delta all the same if what it shall be has changed since, if an address that it may have in place
// is that of another port in the Delta now, or if the Delta is Full.
func (c *Cursor) Postpone(later func(Key) bool) { c.later = later }

// Delta returns what the consumer has to do to reach p, nil if nothing.
//
// Its cost is that of what was noted and failed, but a Full Delta and one after a
// change of the configuration look at everything.
func (c *Cursor) Delta(p *Plan) *Delta {
	p = p.orEmpty()
	c.ask()
	d := &Delta{New: p, Base: c.base, Full: c.base == nil || c.asked.full}
	if d.Full {
		c.askAll(p)
	} else {
		for _, k := range slices.Concat(c.base.held, p.held) {
			c.asked.addPort(k)
		}
	}
	d.Config = d.Full || !c.base.cfg.equal(p.cfg)
	d.Changes = c.changes(d)
	for name := range c.asked.health {
		if d.Full || !equalHealth(c.base.health(name), p.health(name)) {
			d.Health = append(d.Health, name)
		}
	}
	slices.SortFunc(d.Health, func(a, b types.NamespacedName) int { return svcName(a).Compare(svcName(b)) })
	if !d.Full && !d.Config && len(d.Changes) == 0 && len(d.Health) == 0 {
		c.asked = notes{}
		for _, k := range p.held {
			c.asked.addPort(k) // equal as long as it is held
		}
		return nil
	}
	return d
}

// ask moves what waits to what is asked for.
func (c *Cursor) ask() {
	w := c.waiting
	c.waiting = notes{}
	if len(c.asked.ports) == 0 && len(c.asked.health) == 0 {
		w.full = w.full || c.asked.full
		c.asked = w
		return
	}
	c.asked.full = c.asked.full || w.full
	for k := range w.ports {
		c.asked.addPort(k)
	}
	for n := range w.health {
		c.asked.addHealth(n)
	}
}

// askAll asks for everything that is in place or shall be.
func (c *Cursor) askAll(p *Plan) {
	plans := []*Plan{p}
	if c.base != nil {
		plans = append(plans, c.base)
	}
	for _, q := range plans {
		for port := range q.All() {
			c.asked.addPort(port.Key)
		}
		for h := range q.AllHealth() {
			c.asked.addHealth(h.Name)
		}
	}
}

// changes lists the ports that were asked for or are unsure.
func (c *Cursor) changes(d *Delta) []Change {
	c.postpone(d)
	var list []Change
	add := func(k Key) {
		if _, later := c.postponed[k]; later {
			return
		}
		u, failed := c.state(k)
		after := d.New.Port(k)
		switch same := len(u.versions) == 1 && u.versions[0].equal(after); {
		case len(u.versions) == 0 && after == nil: // never seen and not wanted
		case same && !failed && !d.Full:
		default:
			list = append(list, Change{Key: k, Before: u.versions, After: after})
		}
	}
	for k := range c.asked.ports {
		add(k)
	}
	for k := range c.unsure {
		if _, ok := c.asked.ports[k]; !ok {
			add(k)
		}
	}
	slices.SortFunc(list, func(a, b Change) int { return a.Key.Compare(b.Key) })
	return list
}

// state returns what may be in place of a port, and whether an attempt failed.
func (c *Cursor) state(k Key) (u unsure, failed bool) {
	if u, failed = c.unsure[k]; failed {
		return u, true
	}
	if c.base != nil {
		u.acknowledged = c.base.Port(k)
	}
	return u.attempt(u.acknowledged), false
}

// Done records how the consumer ended d, the last Delta: nil acknowledges it, a
// PartialError (also wrapped, but not joined with others) acknowledges all but the
// named ports, any other error makes the next Delta Full and keeps what was
// attempted. It reports whether d was acknowledged, at least in part.
func (c *Cursor) Done(d *Delta, err error) (acknowledged bool) {
	if d == nil {
		d = &Delta{}
	}
	failed := map[Key]unsure{}
	p := partial(err)
	switch {
	case err == nil:
	case p != nil:
		for k := range p.Ports {
			u, _ := c.state(k)
			u = u.attempt(d.New.Port(k))
			u.wanted = d.New.Port(k)
			failed[k] = u
		}
	default:
		c.attempted(d)
		c.asked.full = true
		return false
	}
	for k := range c.postponed {
		if _, again := failed[k]; !again {
			failed[k] = c.unsure[k]
		}
	}
	c.base, c.unsure, c.asked, c.postponed = d.New, failed, notes{}, nil
	return true
}

// attempted records that any part of d may be in place or not: the next Deltas
// have it in Before, until one is acknowledged.
func (c *Cursor) attempted(d *Delta) {
	if c.unsure == nil {
		c.unsure = map[Key]unsure{}
	}
	for _, ch := range d.Changes {
		u, before := c.state(ch.Key)
		if same := len(u.versions) == 1 && u.versions[0].equal(ch.After); same && !before {
			continue // what was tried is what was there
		}
		c.unsure[ch.Key] = u.attempt(ch.After)
	}
}

// Failed returns the ports that the consumer named in the PartialError of the last
// Delta, and those that this Delta left out, as they were when it last acknowledged them, nil if it had none of that
// name. It is what [Plan.Hold] takes to show them to other consumers. It is
// empty if the last Delta was acknowledged as a whole.
func (c *Cursor) Failed() map[Key]*Port {
	m := make(map[Key]*Port, len(c.unsure))
	for k, u := range c.unsure {
		m[k] = u.acknowledged
	}
	return m
}

func (p *Plan) health(name types.NamespacedName) *Health {
	if e := p.services.at(svcName(name)); e != nil {
		return e.health
	}
	return nil
}
