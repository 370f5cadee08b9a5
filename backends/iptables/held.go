package iptables

import (
	"slices"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A missing is a feature that only some ports need and that is not there.
type missing struct {
	feature
	err error
}

// refused says why a port cannot be written, nil if it can or is nil.
func (f *familyState) refused(p *plan.Port) error {
	if p == nil {
		return nil
	}
	for _, m := range f.missing {
		if m.only(p) {
			return m.err
		}
	}
	return nil
}

// writable returns changes with those that cannot be written held back, and takes these
// down in bad. A held port stays as it was, but for the frontends that are no longer its own.
func (f *familyState) writable(changes []plan.Change, bad map[plan.Key]error) []plan.Change {
	if len(f.missing) == 0 {
		return changes
	}
	out := slices.Clone(changes)
	for i, c := range out {
		if c.Key.Family != f.ip {
			continue
		}
		if err := f.refused(c.After); err != nil {
			bad[c.Key] = err
			out[i].After = held(f.inPlace(c.Key), c.After)
		}
	}
	return out
}

// inPlace returns the port as it was written last, nil if it was not.
func (f *familyState) inPlace(k plan.Key) *plan.Port {
	if f.model == nil {
		return nil
	}
	return f.model.ports[k]
}

// held returns old with the frontends that next has as well, nil if there are none.
func held(old, next *plan.Port) *plan.Port {
	if old == nil {
		return nil
	}
	less := *old
	less.Frontends = slices.DeleteFunc(slices.Clone(old.Frontends), func(f plan.Frontend) bool {
		return !slices.ContainsFunc(next.Frontends, func(n plan.Frontend) bool { return f.Addr == n.Addr && f.Port == n.Port })
	})
	if len(less.Frontends) == 0 {
		return nil
	}
	return &less
}
