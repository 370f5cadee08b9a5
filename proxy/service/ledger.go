package service

import (
	"maps"

	"k8s.io/apimachinery/pkg/types"
)

// A ledger holds the current Services and which of them are not acknowledged.
type ledger struct {
	current map[types.NamespacedName]*Service // no nil values
	marks   map[types.NamespacedName]*mark    // the dirty Services
	most    int                               // marks at once since they were made
	seq     uint64                            // number of the last Changes
}

// A mark says that the current version of a Service may not be in place.
type mark struct {
	acked   *Service // the last acknowledged version, nil if none
	since   uint64   // Changes up to this number say nothing about acked
	offered uint64   // the last Changes with this Service, 0 if acknowledged or none
}

func newLedger() ledger {
	return ledger{current: map[types.NamespacedName]*Service{}, marks: map[types.NamespacedName]*mark{}}
}

func (l *ledger) dirty() bool { return len(l.marks) > 0 }

// put makes s, or nothing if s is nil, the current version of a Service and
// reports whether the Service is dirty. A version that is equal to the current or
// the acknowledged one is replaced by that, so that equal pointers go on to mean
// equal Services.
func (l *ledger) put(name types.NamespacedName, s *Service) bool {
	m, old := l.marks[name], l.current[name]
	if equal(old, s) {
		return m != nil
	}
	if m == nil {
		m = &mark{acked: old, since: l.seq}
		l.marks[name] = m
		l.most = max(l.most, len(l.marks))
	} else if equal(m.acked, s) {
		s = m.acked
	}
	l.keep(name, s)
	return !l.settle(name, m)
}

// replace makes all the only Services.
func (l *ledger) replace(all map[types.NamespacedName]*Service) {
	for name := range l.current {
		if _, ok := all[name]; !ok {
			l.put(name, nil)
		}
	}
	for name, s := range all {
		l.put(name, s)
	}
}

func (l *ledger) pending() Changes {
	if len(l.marks) == 0 {
		return Changes{}
	}
	l.shrink()
	l.seq++
	c := Changes{Services: make(map[types.NamespacedName]*Service, len(l.marks)), seq: l.seq}
	for name, m := range l.marks {
		m.offered = l.seq
		c.Services[name] = l.current[name]
	}
	return c
}

// shrink makes marks as small as it could be: a map keeps the memory, and going through it the
// cost, of what it once held, and after the first load that is every Service.
func (l *ledger) shrink() {
	if l.most <= 4*len(l.marks) {
		return
	}
	small := make(map[types.NamespacedName]*mark, len(l.marks))
	maps.Copy(small, l.marks)
	l.marks, l.most = small, len(small)
}

func (l *ledger) acknowledge(c Changes, except []types.NamespacedName) {
	skip := make(map[types.NamespacedName]bool, len(except))
	for _, name := range except {
		skip[name] = true
	}
	for name, s := range c.Services {
		m := l.marks[name]
		if m == nil || skip[name] || c.seq <= m.since {
			continue
		}
		m.acked, m.since = s, c.seq
		if m.offered <= c.seq {
			m.offered = 0
		}
		l.settle(name, m)
	}
	l.shrink()
}

// settle drops the mark of a Service whose current version is the acknowledged
// one, unless another was handed out since and may be in place. It reports whether
// it did.
func (l *ledger) settle(name types.NamespacedName, m *mark) bool {
	if m.offered != 0 || !equal(m.acked, l.current[name]) {
		return false
	}
	l.keep(name, m.acked)
	delete(l.marks, name)
	return true
}

func (l *ledger) keep(name types.NamespacedName, s *Service) {
	if s == nil {
		delete(l.current, name)
		return
	}
	l.current[name] = s
}
