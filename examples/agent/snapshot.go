package main

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/examples/internal/manifests"
)

// A snapshot is all objects of a folder by name. An object that did not change is the
// same pointer in the next one, as files that did not change are not read.
type snapshot struct {
	services map[types.NamespacedName]*corev1.Service
	slices   map[types.NamespacedName]*discoveryv1.EndpointSlice
	cidrs    map[types.NamespacedName]*networkingv1.ServiceCIDR
	nodes    map[types.NamespacedName]*corev1.Node
}

func newSnapshot(o *manifests.Objects) snapshot {
	return snapshot{byName(o.Services), byName(o.EndpointSlices), byName(o.ServiceCIDRs), byName(o.Nodes)}
}

func byName[T metav1.Object](list []T) map[types.NamespacedName]T {
	m := make(map[types.NamespacedName]T, len(list))
	for _, o := range list {
		m[types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}] = o
	}
	return m
}

// since delivers what is different from an earlier snapshot. Nodes and ranges come
// first, as they concern all Services.
func (s snapshot) since(before snapshot, to *feed) {
	name := types.NamespacedName{Name: to.name}
	if node := s.nodes[name]; node != before.nodes[name] {
		if node != nil {
			to.setNode(node)
		} else {
			to.deleteNode()
		}
	}
	changes(before.cidrs, s.cidrs, to.setCIDR, to.deleteCIDR)
	changes(before.services, s.services, to.setService, to.deleteService)
	changes(before.slices, s.slices, to.setSlice, to.deleteSlice)
}

func changes[T comparable](before, now map[types.NamespacedName]T, set func(T), remove func(types.NamespacedName)) {
	for name, o := range now {
		if before[name] != o {
			set(o)
		}
	}
	for name := range before {
		if _, ok := now[name]; !ok {
			remove(name)
		}
	}
}
