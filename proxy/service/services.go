package service

import "k8s.io/apimachinery/pkg/types"

// services are the current Services, and which of them changed since they were taken.
type services struct {
	current map[types.NamespacedName]*Service // no nil values
	taken   map[types.NamespacedName]*Service // of those that changed: the version last taken, nil if there was none
}

func newServices() services {
	return services{current: map[types.NamespacedName]*Service{}, taken: map[types.NamespacedName]*Service{}}
}

func (s *services) dirty() bool { return len(s.taken) > 0 }

// put makes svc, or nothing if svc is nil, the current version of a Service and
// reports whether the Service is dirty. A version that is equal to the current or
// the taken one is replaced by that, so that equal pointers go on to mean
// equal Services.
func (s *services) put(name types.NamespacedName, svc *Service) bool {
	taken, dirty := s.taken[name]
	old := s.current[name]
	switch {
	case equal(old, svc):
		return dirty
	case !dirty:
		s.taken[name] = old
	case equal(taken, svc):
		delete(s.taken, name)
		s.keep(name, taken)
		return false
	}
	s.keep(name, svc)
	return true
}

// replace makes all the only Services.
func (s *services) replace(all map[types.NamespacedName]*Service) {
	for name := range s.current {
		if _, ok := all[name]; !ok {
			s.put(name, nil)
		}
	}
	for name, svc := range all {
		s.put(name, svc)
	}
}

func (s *services) pending() Changes {
	if !s.dirty() {
		return Changes{}
	}
	c := Changes{Services: make(map[types.NamespacedName]*Service, len(s.taken))}
	for name := range s.taken {
		c.Services[name] = s.current[name]
	}
	return c
}

// take is pending, and makes nothing dirty. The map is a new one: a map keeps the memory, and going through it the
// cost, of what it once held, and at the first load that is every Service.
func (s *services) take() Changes {
	c := s.pending()
	if s.dirty() {
		s.taken = map[types.NamespacedName]*Service{}
	}
	return c
}

func (s *services) keep(name types.NamespacedName, svc *Service) {
	if svc == nil {
		delete(s.current, name)
		return
	}
	s.current[name] = svc
}
