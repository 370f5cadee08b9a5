package endpoints

import (
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// labelProxyName hands a Service and its slices to another proxy
// (k8s.io/kubernetes pkg/proxy/apis, KEP-2447).
const labelProxyName = "service.kubernetes.io/service-proxy-name"

// Options configure an [EndpointsChangeTracker]. The zero value is what
// kube-proxy does.
type Options struct {
	// ProxyName selects slices: "" takes those without the label
	// service.kubernetes.io/service-proxy-name, another value those whose label
	// has this value. Slices with the label service.kubernetes.io/headless are
	// never taken.
	ProxyName string

	// Filter, if not nil, hides a slice when it returns false. It must be pure
	// and safe for concurrent use: it is called once for each slice that Set or
	// Replace is given and ProxyName selects, and the last answer counts.
	Filter func(*discoveryv1.EndpointSlice) bool

	// Expand, if not nil, replaces base, which was made from
	// slice.Endpoints[index] and the port of the slice that key names, by any
	// number of endpoints under the same key: none hides it, a changed one rewrites address, weight or Ext. It
	// must be pure and safe for concurrent use, and must not change the hints of
	// base in place. An endpoint without a port or whose address has not the
	// family of the slice is reported and left out; so is an Ext that cannot be
	// compared with ==.
	Expand func(slice *discoveryv1.EndpointSlice, index int, key Key, base Endpoint) []Endpoint
}

// Changes is what changed in a tracker since the last Take.
type Changes struct {
	// Sets has the current endpoints of every Service whose endpoints changed;
	// nil if it has none left. A Service that changed and changed back is there
	// too. The caller may keep the Sets.
	Sets map[types.NamespacedName]*Set

	// Triggers has, per Service, when the changes were caused, by the annotation
	// endpoints.kubernetes.io/last-change-trigger-time of the slices, oldest
	// first. A time that cannot be parsed or is not later than the making of the
	// tracker is left out.
	Triggers map[types.NamespacedName][]time.Time
}

// EndpointsChangeTracker turns EndpointSlices into endpoint Sets.
//
// It keeps no object that it was given. All methods are safe for concurrent
// use; hooks run without its lock. Versions of one slice must be given in their
// order.
type EndpointsChangeTracker struct {
	opts    Options
	created time.Time
	names   *interner

	mu       sync.Mutex
	seq      uint64 // of the last change
	services map[types.NamespacedName]*serviceState

	// dirty are the services with changed != 0. It is no map, since walking one
	// costs time for the most entries that it ever had.
	dirty []*serviceState

	// owners has the Service of every slice that has an endpoint.
	owners map[types.NamespacedName]*serviceState
}

// NewEndpointsChangeTracker returns an empty tracker.
func NewEndpointsChangeTracker(opts Options) *EndpointsChangeTracker {
	return &EndpointsChangeTracker{
		opts:     opts,
		created:  time.Now(),
		names:    newInterner(),
		services: make(map[types.NamespacedName]*serviceState),
		owners:   make(map[types.NamespacedName]*serviceState),
	}
}

// Set takes the current version of a slice. It reports whether anything that is
// used has changed, and what was wrong with the object, by API path; what is
// wrong is left out. A slice that is not for this tracker (see [Options], or of
// an address type other than IPv4 and IPv6) or has no Service counts as
// deleted. The slice may be reused or changed afterwards. Set costs time for the
// slice, whatever its Service has besides.
func (t *EndpointsChangeTracker) Set(slice *discoveryv1.EndpointSlice) (bool, field.ErrorList) {
	if slice == nil {
		return false, nil
	}
	u := t.read(slice)
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.seq
	t.apply(u)
	return t.seq != before, u.problems
}

// Delete forgets a slice by its name; an unknown one is not a change.
func (t *EndpointsChangeTracker) Delete(slice types.NamespacedName) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.seq
	t.apply(update{name: slice})
	return t.seq != before
}

// Replace takes the complete list of slices: those not in it are forgotten. It
// is what Set and Delete for each of them would be, in one step for [EndpointsChangeTracker.Take].
// It returns the problems by the name of the slice, nil if there are none.
func (t *EndpointsChangeTracker) Replace(list []*discoveryv1.EndpointSlice) (bool, map[types.NamespacedName]field.ErrorList) {
	updates := make(map[types.NamespacedName]update, len(list))
	var problems map[types.NamespacedName]field.ErrorList
	for _, slice := range list {
		if slice == nil {
			continue
		}
		u := t.read(slice)
		updates[u.name] = u
		if len(u.problems) == 0 {
			delete(problems, u.name)
			continue
		}
		if problems == nil {
			problems = make(map[types.NamespacedName]field.ErrorList)
		}
		problems[u.name] = u.problems
	}
	return t.replace(updates), problems
}

func (t *EndpointsChangeTracker) replace(updates map[types.NamespacedName]update) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	before := t.seq
	for name := range t.owners {
		if _, ok := updates[name]; !ok {
			t.apply(update{name: name})
		}
	}
	for _, u := range updates {
		t.apply(u)
	}
	return t.seq != before
}

// Pending returns what Take would, and forgets nothing. It costs time for the Services that changed.
func (t *EndpointsChangeTracker) Pending() Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.pending()
}

// Take returns what changed since the last call of Take, state and names in one step, and forgets it: the caller
// remembers what is not in place yet, as a Cursor of package proxy/plan does. It costs time for the Services that changed.
func (t *EndpointsChangeTracker) Take() Changes {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.pending()
	for _, svc := range t.dirty {
		svc.changed, svc.triggers = 0, nil
		if len(svc.slices) == 0 {
			delete(t.services, svc.name)
		}
	}
	t.dirty = nil
	return c
}

// pending needs the lock.
func (t *EndpointsChangeTracker) pending() Changes {
	c := Changes{
		Sets:     make(map[types.NamespacedName]*Set, len(t.dirty)),
		Triggers: make(map[types.NamespacedName][]time.Time),
	}
	for _, svc := range t.dirty {
		svc.merge()
		c.Sets[svc.name] = svc.merged
		if len(svc.triggers) > 0 {
			c.Triggers[svc.name] = slices.SortedFunc(slices.Values(svc.triggers), time.Time.Compare)
		}
	}
	return c
}

// An update is what a slice has, as far as it is used.
type update struct {
	name     types.NamespacedName
	service  types.NamespacedName // meaningless if the slice is not taken
	set      *Set                 // nil if the slice is gone, not taken or has no endpoint
	at       time.Time            // of the annotation, zero if there is none
	problems field.ErrorList
}

// read makes an update of a slice. It does not hold the lock while it reads.
func (t *EndpointsChangeTracker) read(slice *discoveryv1.EndpointSlice) update {
	u := update{name: types.NamespacedName{Namespace: t.names.name(slice.Namespace), Name: slice.Name}}
	if slice.AddressType == discoveryv1.AddressTypeFQDN || !t.takes(slice) {
		return u
	}
	family, ok := familyOfType(slice.AddressType)
	if !ok {
		u.problems = field.ErrorList{field.NotSupported(field.NewPath("addressType"), slice.AddressType,
			[]discoveryv1.AddressType{discoveryv1.AddressTypeIPv4, discoveryv1.AddressTypeIPv6})}
		return u
	}
	u.service = types.NamespacedName{Namespace: u.name.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
	if u.problems = checkMeta(slice); len(u.problems) > 0 {
		return u
	}
	u.at = triggerTime(slice)
	r := reader{slice: slice, family: family, expand: t.opts.Expand, names: t.names, old: t.merged(u.service)}
	u.set = r.read()
	u.problems = r.problems
	return u
}

// takes reports whether the slice is for this tracker.
func (t *EndpointsChangeTracker) takes(slice *discoveryv1.EndpointSlice) bool {
	name, labelled := slice.Labels[labelProxyName]
	_, headless := slice.Labels[corev1.IsHeadlessService]
	switch {
	case headless || name != t.opts.ProxyName || labelled != (t.opts.ProxyName != ""):
		return false
	default:
		return t.opts.Filter == nil || t.opts.Filter(slice)
	}
}

// checkMeta returns a problem for each name that is missing.
func checkMeta(slice *discoveryv1.EndpointSlice) field.ErrorList {
	var problems field.ErrorList
	meta := field.NewPath("metadata")
	if slice.Namespace == "" {
		problems = append(problems, field.Required(meta.Child("namespace"), ""))
	}
	if slice.Name == "" {
		problems = append(problems, field.Required(meta.Child("name"), ""))
	}
	if slice.Labels[discoveryv1.LabelServiceName] == "" {
		path := meta.Child("labels").Key(discoveryv1.LabelServiceName)
		problems = append(problems, field.Required(path, "the slice belongs to no Service"))
	}
	return problems
}

func familyOfType(t discoveryv1.AddressType) (f corev1.IPFamily, ok bool) {
	switch t {
	case discoveryv1.AddressTypeIPv4:
		return corev1.IPv4Protocol, true
	case discoveryv1.AddressTypeIPv6:
		return corev1.IPv6Protocol, true
	case discoveryv1.AddressTypeFQDN:
		return "", false
	default:
		return "", false
	}
}

// triggerTime returns when the last change of the slice was caused, zero if it does not say.
func triggerTime(slice *discoveryv1.EndpointSlice) time.Time {
	at, err := time.Parse(time.RFC3339Nano, slice.Annotations[corev1.EndpointsLastChangeTriggerTime])
	if err != nil {
		return time.Time{}
	}
	return at.UTC()
}

// merged returns what is known of a Service without the changes of this round.
func (t *EndpointsChangeTracker) merged(service types.NamespacedName) *Set {
	t.mu.Lock()
	defer t.mu.Unlock()
	if svc := t.services[service]; svc != nil {
		return svc.merged
	}
	return nil
}

// apply makes an update the state of its slice and counts what it changes.
func (t *EndpointsChangeTracker) apply(u update) {
	before := t.seq
	if owner := t.owners[u.name]; owner != nil && (u.set == nil || owner.name != u.service) {
		owner.slice(u.name.Name).set = nil
		delete(t.owners, u.name)
		t.mark(owner)
	}
	if u.set != nil {
		t.store(u)
	}
	// A slice that moved away or lost its last endpoint may leave a Service
	// that did not change under the name.
	svc := t.services[u.service]
	// A time from before the tracker was made would measure how long it did not run.
	if u.at.After(t.created) && svc != nil && svc.changed > before {
		svc.triggers = append(svc.triggers, u.at)
	}
}

// store puts a slice that has endpoints under its Service.
func (t *EndpointsChangeTracker) store(u update) {
	svc := t.services[u.service]
	if svc == nil {
		svc = &serviceState{name: u.service}
		t.services[u.service] = svc
	}
	st := svc.slice(u.name.Name)
	same, sameTime := st.set.Equal(u.set), st.at.Equal(u.at)
	st.at, st.retimed = u.at, st.retimed || !sameTime
	if same && (sameTime || !svc.contested(st)) {
		return
	}
	if !same {
		st.set = u.set
	}
	t.owners[u.name] = svc
	t.mark(svc)
}

func (t *EndpointsChangeTracker) mark(svc *serviceState) {
	t.seq++
	if svc.changed == 0 {
		t.dirty = append(t.dirty, svc)
	}
	svc.changed = t.seq
}
