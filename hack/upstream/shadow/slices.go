package shadow

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
)

// areaSlices is the area of what the cache of EndpointSlices answers.
const areaSlices = "slices"

// An EndpointMap has the endpoints of one Service by "port/PROTOCOL".
type EndpointMap map[string][]Endpoint

// A SliceChange is what upstream's cache says about a Service that changed.
type SliceChange struct{ Previous, Current EndpointMap }

// Slices is vipkit's tracker beside a cache of upstream. It is safe for concurrent use.
type Slices struct {
	node    string
	mu      sync.Mutex
	tracker *endpoints.EndpointsChangeTracker
	objects map[types.NamespacedName]*discoveryv1.EndpointSlice
	moved   map[types.NamespacedName]bool // Services that lost a slice to another
	sets    map[types.NamespacedName]*endpoints.Set
}

// NewSlices returns an empty one for the node of that name.
func NewSlices(node string) *Slices {
	return &Slices{
		node:    node,
		tracker: endpoints.NewEndpointsChangeTracker(endpoints.Options{}),
		objects: map[types.NamespacedName]*discoveryv1.EndpointSlice{},
		moved:   map[types.NamespacedName]bool{},
		sets:    map[types.NamespacedName]*endpoints.Set{},
	}
}

// Update gives the slice to vipkit and compares whether it is a change.
func (s *Slices) Update(slice *discoveryv1.EndpointSlice, remove, upstream bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := types.NamespacedName{Namespace: slice.Namespace, Name: slice.Name}
	now := withAddressType(slice)
	old := s.objects[name]
	if o, n := serviceOf(old), serviceOf(now); old != nil && o != n {
		s.moved[o] = true
	}
	var ours bool
	if remove {
		ours = s.tracker.Delete(name)
		delete(s.objects, name)
	} else {
		ours, _ = s.tracker.Set(now)
		s.objects[name] = now
	}
	switch {
	case ours == upstream:
		Agree(areaSlices)
	case upstream && !remove && usedOf(now) == usedOf(old), upstream && remove && usedOf(old) == "":
		Differ(areaSlices, "unused-field-changed", "slice %s", name)
	default:
		Differ(areaSlices, Unexplained, "slice %s removed %v: a change for upstream %v, vipkit %v", name, remove, upstream, ours)
	}
}

// Forget acknowledges what is pending, for tests that fill upstream's cache by hand.
func (s *Slices) Forget() { s.tracker.Take() }

// Sets returns the endpoints of all Services that were compared.
func (s *Slices) Sets() map[types.NamespacedName]*endpoints.Set {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.sets)
}

// Checkout compares the endpoints of the Services that changed, and acknowledges them.
func (s *Slices) Checkout(upstream map[types.NamespacedName]SliceChange) {
	s.mu.Lock()
	defer s.mu.Unlock()
	pending := s.tracker.Take()
	for name, change := range upstream {
		set, dirty := pending.Sets[name]
		s.compare(name, change, set, dirty)
	}
	for name, set := range pending.Sets {
		if _, ok := upstream[name]; !ok && s.moved[name] {
			Differ(areaSlices, "slice-moved", "%s", name)
		} else if !ok {
			Differ(areaSlices, Unexplained, "%s changed for vipkit only", name)
		}
		s.sets[name] = set
	}
	current.note(func(c *latest) { c.slices = s })
}

func (s *Slices) compare(name types.NamespacedName, change SliceChange, set *endpoints.Set, dirty bool) {
	theirs := change.Current.String()
	if !dirty {
		set = s.sets[name]
		if set == nil { // filled by hand and forgotten
			if change.Previous.usable().String() == change.Current.usable().String() {
				Differ(areaSlices, "no-endpoint-changed", "%s", name)
				return
			}
		}
	}
	ours := endpointMap(set, s.node)
	switch {
	case s.moved[name]:
		Differ(areaSlices, "slice-moved", "%s", name)
	case theirs == ours.String() && dirty:
		Agree(areaSlices)
	case theirs == ours.String():
		Differ(areaSlices, "no-endpoint-changed", "%s", name)
	case change.Current.usable().String() == ours.String():
		Differ(areaSlices, "no-port-or-address", "%s: upstream %s", name, theirs)
	case change.Current.String() == s.named(name).String():
		Differ(areaSlices, "port-without-name", "%s", name)
	case s.mixes(name):
		Differ(areaSlices, "address-of-another-family", "%s: upstream %s, vipkit %s", name, theirs, ours)
	case s.claimed(name).explain(change.Current.usable(), ours):
		Differ(areaSlices, "claimed-twice", "%s: upstream %s, vipkit %s", name, theirs, ours)
	default:
		Differ(areaSlices, Unexplained, "%s (dirty %v): upstream %s, vipkit %s", name, dirty, theirs, ours)
	}
}

// mixes reports whether a slice of the Service has addresses of another family than it says.
func (s *Slices) mixes(name types.NamespacedName) bool {
	for _, slice := range s.objects {
		for _, e := range slice.Endpoints {
			six := len(e.Addresses) > 0 && strings.Contains(e.Addresses[0], ":")
			if serviceOf(slice) == name && len(e.Addresses) > 0 && six != (slice.AddressType == discoveryv1.AddressTypeIPv6) {
				return true
			}
		}
	}
	return false
}

// named returns the endpoints of the Service without ports that have no name.
func (s *Slices) named(name types.NamespacedName) EndpointMap {
	t := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
	for _, slice := range s.objects {
		if serviceOf(slice) == name {
			slice = slice.DeepCopy()
			slice.Ports = slices.DeleteFunc(slice.Ports, func(p discoveryv1.EndpointPort) bool { return p.Name == nil })
			t.Set(slice)
		}
	}
	return endpointMap(t.Take().Sets[name], s.node)
}

func endpointMap(set *endpoints.Set, node string) EndpointMap {
	out := EndpointMap{}
	for k, eps := range set.All() {
		key := k.Port + "/" + string(k.Protocol)
		for _, e := range eps {
			out[key] = append(out[key], Endpoint{
				Text: e.String(), Local: e.IsOn(node), Ready: e.Ready, Serving: e.Serving,
				Terminating: e.Terminating, Zones: e.Hints.Zones(), Nodes: e.Hints.Nodes(),
			})
		}
	}
	return out
}

// String returns one line with everything in it, sorted.
func (m EndpointMap) String() string {
	var out []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		eps := slices.SortedFunc(slices.Values(m[key]), func(a, b Endpoint) int { return cmp.Compare(a.Text, b.Text) })
		for _, e := range eps {
			out = append(out, fmt.Sprintf("%s %+v", key, e))
		}
	}
	return join(out)
}

// usable leaves out what is no address with a port.
func (m EndpointMap) usable() EndpointMap {
	out := EndpointMap{}
	for key, eps := range m {
		for _, e := range eps {
			if a, err := netip.ParseAddrPort(e.Text); err == nil && a.Port() != 0 {
				out[key] = append(out[key], e)
			}
		}
	}
	return out
}

// withAddressType copies the slice; upstream's tests leave the type out.
func withAddressType(slice *discoveryv1.EndpointSlice) *discoveryv1.EndpointSlice {
	out := slice.DeepCopy()
	if out.AddressType != "" {
		return out
	}
	out.AddressType = discoveryv1.AddressTypeIPv4
	for _, e := range out.Endpoints {
		if len(e.Addresses) > 0 && strings.Contains(e.Addresses[0], ":") {
			out.AddressType = discoveryv1.AddressTypeIPv6
		}
	}
	return out
}

func serviceOf(slice *discoveryv1.EndpointSlice) types.NamespacedName {
	if slice == nil {
		return types.NamespacedName{}
	}
	return types.NamespacedName{Namespace: slice.Namespace, Name: slice.Labels[discoveryv1.LabelServiceName]}
}

// usedOf returns what a new tracker takes from the slice, as text; "" if nothing.
func usedOf(slice *discoveryv1.EndpointSlice) string {
	if slice == nil {
		return ""
	}
	t := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
	t.Set(slice)
	var out []string
	for name, set := range t.Take().Sets {
		for k, eps := range set.All() {
			for _, e := range eps {
				out = append(out, fmt.Sprint(name, k, e, e.Ready, e.Serving, e.Terminating, e.NodeName, e.Hints.Zones(), e.Hints.Nodes()))
			}
		}
	}
	slices.Sort(out)
	return join(out)
}

// portKey is the key of an EndpointMap, "" for a port that upstream ignores.
func portKey(p discoveryv1.EndpointPort) string {
	if p.Port == nil || *p.Port == 0 || p.Name == nil {
		return ""
	}
	protocol := corev1.ProtocolTCP
	if p.Protocol != nil {
		protocol = *p.Protocol
	}
	return *p.Name + "/" + string(protocol)
}
