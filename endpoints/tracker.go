package endpoints

import (
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Options configure an [EndpointsChangeTracker]. The zero value is what
// kube-proxy does.
type Options struct {
	// ProxyName selects slices: "" takes those without the label
	// service.kubernetes.io/service-proxy-name, another value those whose label
	// has this value. Slices with the label service.kubernetes.io/headless are
	// never taken.
	ProxyName string

	// Filter, if not nil, hides a slice when it returns false. It must be pure:
	// it is called once for each Set, and the last answer counts.
	Filter func(*discoveryv1.EndpointSlice) bool

	// Expand, if not nil, replaces base, which was made from
	// slice.Endpoints[index] and one port of the slice, by any number of
	// endpoints: none hides it, a changed one rewrites address, weight or Ext. It
	// must be pure. An endpoint whose address has not the family of the slice, or
	// whose Ext cannot be compared with ==, is reported; it is left out, or its Ext is.
	Expand func(slice *discoveryv1.EndpointSlice, index int, base Endpoint) []Endpoint
}

// Changes is what a tracker has to say since it was last acknowledged.
type Changes struct {
	// Sets has the current endpoints of every Service whose endpoints changed;
	// nil if it has none left. The caller may keep the Sets.
	Sets map[types.NamespacedName]*Set

	// Triggers has, per Service, when the changes were caused, by the annotation
	// endpoints.kubernetes.io/last-change-trigger-time of the slices, oldest
	// first.
	Triggers map[types.NamespacedName][]time.Time

	seq uint64
}

// EndpointsChangeTracker turns EndpointSlices into endpoint Sets.
type EndpointsChangeTracker struct{}

// NewEndpointsChangeTracker returns an empty tracker.
func NewEndpointsChangeTracker(opts Options) *EndpointsChangeTracker { panic("not yet") }

// Set takes the current version of a slice. It reports whether anything that is
// used has changed, and what was wrong with the object.
func (t *EndpointsChangeTracker) Set(slice *discoveryv1.EndpointSlice) (bool, field.ErrorList) {
	panic("not yet")
}

// Delete forgets a slice by its name; an unknown one is not a change.
func (t *EndpointsChangeTracker) Delete(slice types.NamespacedName) bool { panic("not yet") }

// Replace takes the complete list of slices: those not in it are forgotten.
func (t *EndpointsChangeTracker) Replace(slices []*discoveryv1.EndpointSlice) (bool, map[types.NamespacedName]field.ErrorList) {
	panic("not yet")
}

// Pending returns all changes that are not acknowledged, state and names in one step.
func (t *EndpointsChangeTracker) Pending() Changes { panic("not yet") }

// Acknowledge forgets the changes in c, but for those of the Services in except
// and those that changed again since.
func (t *EndpointsChangeTracker) Acknowledge(c Changes, except ...types.NamespacedName) {
	panic("not yet")
}
