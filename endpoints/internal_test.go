package endpoints

import (
	"strings"
	"testing"
	"unsafe"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// TestMemory looks at what no user can see: nothing is kept of Services that are
// gone, and names are kept once.
func TestMemory(t *testing.T) {
	tr := NewEndpointsChangeTracker(Options{})
	set := func(name, addr string) {
		tr.Set(&discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "svc"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Port: ptr.To[int32](80)}},
			Endpoints:   []discoveryv1.Endpoint{{Addresses: []string{addr}, NodeName: ptr.To(strings.Clone("node-a"))}},
		})
	}
	set("s1", "10.0.0.1")
	set("s2", "10.0.0.2")
	c := tr.Take()
	var nodes []*byte
	for _, eps := range c.Sets[types.NamespacedName{Namespace: "ns", Name: "svc"}].All() {
		for _, e := range eps {
			nodes = append(nodes, unsafe.StringData(e.NodeName))
		}
	}
	if len(nodes) != 2 || nodes[0] != nodes[1] {
		t.Errorf("the name of a node is at %v, want one copy for 2 endpoints", nodes)
	}
	tr.Delete(types.NamespacedName{Namespace: "ns", Name: "s1"})
	tr.Delete(types.NamespacedName{Namespace: "ns", Name: "s2"})
	tr.Take()
	if len(tr.services)+len(tr.owners)+len(tr.dirty) != 0 {
		t.Errorf("left are services %v, owners %v, dirty %v", tr.services, tr.owners, tr.dirty)
	}
}
