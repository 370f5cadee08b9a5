package endpoints_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/vipkit/vipkit/endpoints"
)

const triggerAnnotation = "endpoints.kubernetes.io/last-change-trigger-time"

// newSlice returns an IPv4 slice of namespace "ns" with port p, TCP 80.
func newSlice(name, service string, eps ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: name,
			Labels: map[string]string{"kubernetes.io/service-name": service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{newPort("p", 80)},
		Endpoints:   eps,
	}
}

func newPort(name string, number int32) discoveryv1.EndpointPort {
	return discoveryv1.EndpointPort{Name: ptr.To(name), Port: ptr.To(number), Protocol: ptr.To(corev1.ProtocolTCP)}
}

// newEndpoint returns an endpoint in one of the states of the specification: R
// ready, N not ready, T terminating and serving, X terminating and not serving,
// P and PX the same with publishNotReadyAddresses, S serving but not ready; ""
// leaves all conditions nil.
func newEndpoint(addr, state string) discoveryv1.Endpoint {
	in := discoveryv1.Endpoint{Addresses: []string{addr}}
	is := func(states ...string) *bool { return ptr.To(slices.Contains(states, state)) }
	if state != "" {
		in.Conditions = discoveryv1.EndpointConditions{
			Ready:       is("R", "P", "PX"),
			Serving:     is("R", "T", "P", "S"),
			Terminating: is("T", "X", "P", "PX"),
		}
	}
	return in
}

// ready returns ready endpoints.
func ready(addrs ...string) []discoveryv1.Endpoint {
	eps := make([]discoveryv1.Endpoint, len(addrs))
	for i, a := range addrs {
		eps[i] = newEndpoint(a, "R")
	}
	return eps
}

func name(n string) types.NamespacedName { return types.NamespacedName{Namespace: "ns", Name: n} }

// keyP is the key of the port of newSlice.
func keyP() endpoints.Key {
	return endpoints.Key{Port: "p", Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}
}

// load returns a tracker that was given the slices.
func load(t *testing.T, list ...*discoveryv1.EndpointSlice) *endpoints.EndpointsChangeTracker {
	t.Helper()
	tr := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
	for _, s := range list {
		if _, errs := tr.Set(s); len(errs) > 0 {
			t.Fatalf("Set(%s): %v", s.Name, errs)
		}
	}
	return tr
}

// settled is load with everything acknowledged.
func settled(t *testing.T, list ...*discoveryv1.EndpointSlice) *endpoints.EndpointsChangeTracker {
	t.Helper()
	tr := load(t, list...)
	tr.Take()
	return tr
}

// text returns a set as "port/protocol/family: endpoint endpoint" lines.
func text(s *endpoints.Set) string {
	var lines []string
	for k, eps := range s.All() {
		words := []string{k.Port + "/" + string(k.Protocol) + "/" + string(k.Family) + ":"}
		for _, e := range eps {
			words = append(words, e.String())
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return strings.Join(lines, "\n")
}

// pendingText returns the pending Sets as lines "service key: endpoints".
func pendingText(c endpoints.Changes) string {
	var lines []string
	for _, n := range slices.SortedFunc(maps.Keys(c.Sets), func(a, b types.NamespacedName) int {
		return strings.Compare(a.Name, b.Name)
	}) {
		lines = append(lines, n.Name+" "+text(c.Sets[n]))
	}
	return strings.Join(lines, "\n")
}

func wantPending(t *testing.T, tr *endpoints.EndpointsChangeTracker, want ...string) {
	t.Helper()
	if got := pendingText(tr.Pending()); got != strings.Join(want, "\n") {
		t.Errorf("pending\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// fields returns the API paths of problems.
func fields(errs field.ErrorList) []string {
	var paths []string
	for _, e := range errs {
		paths = append(paths, e.Field)
	}
	return paths
}
