package service

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Options configure a [ServiceChangeTracker]. The zero value is what kube-proxy does.
type Options struct {
	// ProxyName selects Services: "" takes those without the label
	// service.kubernetes.io/service-proxy-name, another value those whose label
	// has this value. Services with the label service.kubernetes.io/headless are
	// never taken.
	ProxyName string

	// Filter, if not nil, hides a Service when it returns false. It must be pure.
	Filter func(*corev1.Service) bool

	// Ext, if not nil, returns a value to travel with the Service, for instance
	// a scheduler read from an annotation. It must be pure. A value that cannot
	// be compared with == is reported and left out.
	Ext func(*corev1.Service) any

	// IgnoreExternalIPs treats spec.externalIPs as empty (KEP-5707).
	IgnoreExternalIPs bool
}

// Changes is what a tracker has to say since it was last acknowledged.
type Changes struct {
	// Services has the current version of every Service that changed; nil if it
	// is gone or no longer proxied. The caller may keep the Services.
	Services map[types.NamespacedName]*Service

	seq uint64
}

// ServiceChangeTracker turns Services into immutable values.
type ServiceChangeTracker struct{}

// NewServiceChangeTracker returns an empty tracker.
func NewServiceChangeTracker(opts Options) *ServiceChangeTracker { panic("not yet") }

// Set takes the current version of a Service. It reports whether anything that
// is used has changed, and what was wrong with the object.
func (t *ServiceChangeTracker) Set(svc *corev1.Service) (bool, field.ErrorList) { panic("not yet") }

// Delete forgets a Service by its name; an unknown one is not a change.
func (t *ServiceChangeTracker) Delete(name types.NamespacedName) bool { panic("not yet") }

// Replace takes the complete list of Services: those not in it are forgotten.
func (t *ServiceChangeTracker) Replace(svcs []*corev1.Service) (bool, map[types.NamespacedName]field.ErrorList) {
	panic("not yet")
}

// Pending returns all changes that are not acknowledged, state and names in one step.
func (t *ServiceChangeTracker) Pending() Changes { panic("not yet") }

// Acknowledge forgets the changes in c, but for those of the Services in except
// and those that changed again since.
func (t *ServiceChangeTracker) Acknowledge(c Changes, except ...types.NamespacedName) {
	panic("not yet")
}
