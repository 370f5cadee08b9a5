// Package endpoints turns EndpointSlices into immutable sets of endpoints.
//
// An [EndpointsChangeTracker] is fed with the current version of every slice,
// in any order and as often as the caller likes, and answers which Services
// have other endpoints than before:
//
//	slices ─► Set, Delete, Replace ─► tracker ─► Take ─► a Set for each Service that changed
//
// The model:
//
//   - A slice is known by its own namespace and name. Its label
//     kubernetes.io/service-name names the Service, which need not exist; a slice
//     whose label changes moves.
//   - What is optional in the API is resolved here, once: a missing port name is
//     "", a missing protocol TCP; ready and serving default to true and
//     terminating to false. Only fields that matter are compared, so an update
//     of metadata is no change, unless its time makes another claim count.
//   - Several slices may have one address. The best claim counts: not terminating,
//     then ready, then serving, then that of the slice with the newer annotation
//     endpoints.kubernetes.io/last-change-trigger-time, then the one with the greater
//     node name, hints and weight. What only other claims have (node, hints of zones,
//     hints of nodes, Ext) is added to it. The result is a function of the set of slices: it
//     depends on neither the order of events nor the names of slices; only among claims that
//     differ in nothing but Ext the slice with the lesser name counts. Within one slice the
//     first of equally good claims counts.
//   - A bad field is left out and reported by its API path; the rest of the
//     slice works. An unspecified, loopback, link-local or link-local multicast address is
//     bad, as in the API, unless [Options.Expand] made it.
//   - A change is pending until it is taken, once: what is not in place yet is remembered by who
//     puts it there. An endpoint that did not change is the same pointer in the next [Set].
//
// The package does not choose endpoints: which of them a node uses is decided by
// package topology. It needs no client, informer or Service, and reads no
// Endpoints objects, which the control plane mirrors into slices.
package endpoints
