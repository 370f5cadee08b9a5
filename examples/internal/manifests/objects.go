package manifests

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects are what was read. What Load and Merge return is sorted by namespace
// and name, each object once; what Parse returns is in the order of the file.
type Objects struct {
	Services       []*corev1.Service
	EndpointSlices []*discoveryv1.EndpointSlice
	Nodes          []*corev1.Node
	ServiceCIDRs   []*networkingv1.ServiceCIDR
}

// Load reads paths in the given order: files, folders as [Files] lists them, and
// "-" for stdin. Of an object that occurs several times the last one counts. The
// notes tell what was skipped, one sentence each. The error names the file,
// where it applies the number of the document in it, and the reason.
func Load(paths []string, stdin io.Reader) (objects *Objects, notes []string, err error) {
	var all []*Objects
	for _, path := range paths {
		names, err := Files(path)
		if err != nil {
			return nil, nil, fmt.Errorf("manifests: %w", err)
		}
		if len(names) == 0 {
			notes = append(notes, path+": no *.yaml, *.yml or *.json in this folder")
		}
		for _, name := range names {
			data, err := read(name, stdin)
			if err != nil {
				return nil, nil, fmt.Errorf("manifests: %w", err)
			}
			o, skipped, err := Parse(name, data)
			if err != nil {
				return nil, nil, err
			}
			all, notes = append(all, o), append(notes, skipped...)
		}
	}
	return Merge(all...), notes, nil
}

// Merge puts lists of objects together: of an object that occurs several times
// the last one counts. It does not change what it is given; the objects are shared.
func Merge(lists ...*Objects) *Objects {
	all := &Objects{}
	for _, o := range lists {
		all.Services = append(all.Services, o.Services...)
		all.EndpointSlices = append(all.EndpointSlices, o.EndpointSlices...)
		all.Nodes = append(all.Nodes, o.Nodes...)
		all.ServiceCIDRs = append(all.ServiceCIDRs, o.ServiceCIDRs...)
	}
	all.Services = latest(all.Services)
	all.EndpointSlices = latest(all.EndpointSlices)
	all.Nodes = latest(all.Nodes)
	all.ServiceCIDRs = latest(all.ServiceCIDRs)
	return all
}

// latest sorts objects by namespace and name and keeps the last of each.
func latest[T metav1.Object](objects []T) []T {
	compare := func(a, b T) int {
		return cmp.Or(strings.Compare(a.GetNamespace(), b.GetNamespace()), strings.Compare(a.GetName(), b.GetName()))
	}
	slices.Reverse(objects)
	slices.SortStableFunc(objects, compare)
	return slices.CompactFunc(objects, func(a, b T) bool { return compare(a, b) == 0 })
}
