package cluster

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Changes return the version before and after, never the same object, and make the
// latter the Cluster's. Informers deliver both.

// ChangeEndpoint replaces the last endpoint of Service i by one that was never there.
func (c *Cluster) ChangeEndpoint(i int) (before, after *discoveryv1.EndpointSlice) {
	before, after = c.nextSlice(i)
	last := len(after.Endpoints) - 1
	// 20 nodes from the measured one, on addresses that no Service of the Cluster has.
	after.Endpoints[last].Addresses = []string{endpointIP(1<<20 + c.version)}
	return before, after
}

// ChangeMetadata changes nothing that a proxy needs: the trigger time and a label.
func (c *Cluster) ChangeMetadata(i int) (before, after *discoveryv1.EndpointSlice) {
	before, after = c.nextSlice(i)
	after.Labels["revision"] = after.ResourceVersion
	after.Annotations = map[string]string{"example.com/revision": after.ResourceVersion}
	return before, after
}

func (c *Cluster) nextSlice(i int) (before, after *discoveryv1.EndpointSlice) {
	c.version++
	before = c.Slices[i]
	after = before.DeepCopy()
	after.ResourceVersion = strconv.Itoa(c.version)
	c.Slices[i] = after
	return before, after
}

// Extra returns a Service, with its slice, that is not in the Cluster.
func (c *Cluster) Extra() (*corev1.Service, *discoveryv1.EndpointSlice) {
	i := len(c.Services) + 1 // no multiple of hintEvery at usual sizes
	return NewService(i), c.newSlice(i)
}

// Large returns a Cluster of one Service whose endpoints are in slices of this size.
func Large(slices, size int) *Cluster {
	c := &Cluster{Services: []*corev1.Service{NewService(1)}, endpoints: slices * size}
	for s := range slices {
		eps := make([]discoveryv1.Endpoint, 0, size)
		for k := s * size; k < (s+1)*size; k++ {
			eps = append(eps, NewEndpoint(endpointIP(k), k))
		}
		c.Slices = append(c.Slices, NewSlice(1, fmt.Sprintf("svc-1-%05d", s), eps))
	}
	return c
}
