package proxy

import (
	discovery "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

type vipkitSlices = shadow.Slices

// shadow returns vipkit's tracker beside the cache.
func (cache *EndpointSliceCache) shadow() *shadow.Slices {
	cache.lock.Lock()
	defer cache.lock.Unlock()
	if cache.vipkit == nil {
		cache.vipkit = shadow.NewSlices(cache.nodeName)
	}
	return cache.vipkit
}

// Vipkit returns vipkit's tracker beside this one.
func (ect *EndpointsChangeTracker) Vipkit() *shadow.Slices { return ect.endpointSliceCache.shadow() }

func (cache *EndpointSliceCache) updatePending(slice *discovery.EndpointSlice, remove bool) bool {
	changed := cache.upstreamUpdatePending(slice, remove)
	if _, _, err := endpointSliceCacheKeys(slice); err == nil {
		cache.shadow().Update(slice, remove, changed)
	}
	return changed
}

func (cache *EndpointSliceCache) checkoutChanges() map[types.NamespacedName]*endpointsChange {
	changes := cache.upstreamCheckoutChanges()
	theirs := map[types.NamespacedName]shadow.SliceChange{}
	for name, c := range changes {
		theirs[name] = shadow.SliceChange{Previous: vipkitMap(c.previous), Current: vipkitMap(c.current)}
	}
	cache.shadow().Checkout(theirs)
	return changes
}

func vipkitMap(m EndpointsMap) shadow.EndpointMap {
	out := shadow.EndpointMap{}
	for name, list := range m {
		out[name.Port+"/"+string(name.Protocol)] = vipkitEndpoints(list)
	}
	return out
}
