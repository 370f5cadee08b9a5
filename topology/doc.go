// Package topology chooses the endpoints that a node uses for a Service port.
//
// It is one pure function, [Select]: from the endpoints of a Service port, the
// node they are looked at from, and the traffic policies, to a [Selection]. It
// knows nothing of addresses that clients dial, of verdicts, or of packets: those
// are made from a Selection by package plan.
//
// # Rules
//
// The code follows the order of this table. "Usable" is
// [endpoints.Endpoint.Usable]: terminating but still serving.
//
//	list       policy                   rule
//	Any        any                      some endpoint is ready, or else usable
//	Cluster    internal Cluster, or     node mode: ready, hinted for this node
//	           external frontends       zone mode: ready, hinted for this zone
//	                                    no mode:   ready
//	                                    none ready: usable, whatever the hints say
//	Local      internal Local, or       ready and on this node
//	           external Local with      none: usable and on this node, even if
//	           external frontends       another node has ready ones
//	Reachable  any                      union of Cluster and Local
//
// # Modes
//
// Only ready endpoints count: a hint, or a missing one, on an endpoint that is not
// ready changes nothing. The first mode that applies is taken, for each Service
// port by itself.
//
//	mode  applies if all ready endpoints have    and at least one of the hints names
//	node  a node hint (KEP-3015)                 this node
//	zone  a zone hint (KEP-2433, KEP-4444)       this node's zone
//	none  otherwise
//
// Hints in the endpoints are all that is needed: neither spec.trafficDistribution
// nor the topology annotations of the Service are looked at, as those tell the
// EndpointSlice controller whether to give hints. A node without a zone label
// never has zone mode.
//
// Narrowing is all or nothing: a single ready endpoint without a hint switches a
// mode off for the whole Service port. That is the contract with the controller,
// which may not have finished; [Selection.Reason] names that endpoint.
package topology
