package proxy

import discovery "k8s.io/api/discovery/v1"

// initializeCache fills the cache and takes all of it as applied, for vipkit too.
func initializeCache(cache *EndpointSliceCache, slices []*discovery.EndpointSlice) {
	upstreamInitializeCache(cache, slices)
	cache.shadow().Forget()
}
