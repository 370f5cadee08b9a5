package service

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Options configure a [ServiceChangeTracker]. The zero value is what kube-proxy
// does.
type Options struct {
	// ProxyName selects Services: "" takes those without the label
	// service.kubernetes.io/service-proxy-name, another value those whose label
	// has this value. The label with an empty value is a label. Services with the
	// label service.kubernetes.io/headless are never taken.
	ProxyName string

	// Filter, if not nil, hides a Service when it returns false. It must be pure,
	// safe for concurrent use, and must not change the Service. It is called once
	// for each Service that Set or Replace is given and ProxyName selects, and the
	// last answer counts.
	Filter func(*corev1.Service) bool

	// Ext, if not nil, returns a value to travel with the Service, for instance
	// a scheduler read from an annotation. It must be pure, safe for concurrent use,
	// and must not change the Service. Values are compared with ==, so a pointer made anew in each call is
	// a change each time. A value that cannot be compared is reported with the path
	// "ext" and left out.
	Ext func(*corev1.Service) any

	// IgnoreExternalIPs treats spec.externalIPs as empty (KEP-5707), also where
	// they would give a Service of type ClusterIP an external traffic policy.
	IgnoreExternalIPs bool
}

// Changes is what changed in a tracker since the last Take.
type Changes struct {
	// Services has the current version of every Service that changed; nil if it
	// is gone or no longer proxied. The caller may keep the Services. The map is
	// nil if nothing changed.
	Services map[types.NamespacedName]*Service
}

// A ServiceChangeTracker turns Services into immutable values and remembers which
// changed. It keeps no object that it is given.
//
// It is safe for concurrent use, and hooks are called without a lock held. Two
// calls about one Service that overlap take effect in any order. Its methods never
// fail and work for as long as anybody calls them.
type ServiceChangeTracker struct {
	opts Options

	mu       sync.Mutex
	services services
}

// NewServiceChangeTracker returns an empty tracker.
func NewServiceChangeTracker(opts Options) *ServiceChangeTracker {
	return &ServiceChangeTracker{opts: opts, services: newServices()}
}

// Set takes the current version of a Service. It reports whether the Service is
// dirty now, that is, whether Pending would return it, and what was wrong with the
// object: the same again each time the object comes, by API path, as in
// "spec.externalIPs[1]". A Service that is for another proxy, headless or of type
// ExternalName has no problems; one without a usable ClusterIP is not proxied and has.
//
// The caller may change svc afterwards. The cost is that of the object, whatever
// the number of Services.
func (t *ServiceChangeTracker) Set(svc *corev1.Service) (bool, field.ErrorList) {
	if svc == nil {
		return false, nil
	}
	s, problems := convert(svc, &t.opts)
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.services.put(nameOf(svc), s), problems
}

// Delete forgets a Service by its name; an unknown one is not a change. It reports
// whether the Service is dirty now, as Set does.
func (t *ServiceChangeTracker) Delete(name types.NamespacedName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.services.put(name, nil)
}

// Replace takes the complete list of Services: those not in it are forgotten. Of
// two with one name the later counts. It reports whether any Service is dirty now,
// and what was wrong with which object; a Service without problems is not in the map.
func (t *ServiceChangeTracker) Replace(svcs []*corev1.Service) (bool, map[types.NamespacedName]field.ErrorList) {
	all := make(map[types.NamespacedName]*Service, len(svcs))
	problems := map[types.NamespacedName]field.ErrorList{}
	for _, svc := range svcs {
		if svc == nil {
			continue
		}
		name := nameOf(svc)
		s, p := convert(svc, &t.opts)
		all[name] = s
		delete(problems, name)
		if len(p) > 0 {
			problems[name] = p
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.services.replace(all)
	return t.services.dirty(), problems
}

// Pending returns what Take would, and forgets nothing. The cost is that of the changed Services.
func (t *ServiceChangeTracker) Pending() Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.services.pending()
}

// Take returns what changed since the last call of Take, state and names in one step, and forgets it: the caller
// remembers what is not in place yet, as a Cursor of package proxy/plan does. The cost is that of the changed Services.
func (t *ServiceChangeTracker) Take() Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.services.take()
}

func nameOf(svc *corev1.Service) types.NamespacedName {
	return types.NamespacedName{Namespace: svc.Namespace, Name: svc.Name}
}
