// Package service turns Services into immutable values.
//
// It is the only reader of v1.Service in the library. A [ServiceChangeTracker]
// takes objects as they come from a watch, a file or a test, keeps of each what a
// proxy uses, a [Service], and remembers which of them changed until somebody
// takes the change.
//
// It does not watch anything, knows no endpoints, and decides nothing about
// packets: two Services that claim one address are both reported as they are.
//
// # Model
//
//	Set, Delete, Replace   objects in: level-triggered, in any order, repeated at will
//	Take                   every Service that changed since the last Take, in one step
//	Pending                the same, to look at
//
// A Service is dirty if its current version differs from the one taken last. A change that is undone before
// any Take leaves no trace. What was taken and is not in place yet, after an error, is remembered by who puts it
// there: a Cursor of package proxy/plan does.
//
// # What counts
//
// Services of type ExternalName, headless ones, and those that another proxy serves by
// their label are treated as if they did not exist. So is a Service without a ClusterIP,
// which is reported. Of the others these fields are used, and a change of anything else is no change:
//
//	field                                  use
//	clusterIP, clusterIPs, ipFamilies      [Addresses.ClusterIP] of each family
//	type, externalTrafficPolicy,           [Service.ExternalLocal], [Service.InternalLocal]
//	internalTrafficPolicy
//	ports: name, protocol, port, nodePort  [Service.Ports]
//	externalIPs                            [Addresses.ExternalIPs]
//	status.loadBalancer.ingress: ip and    [Addresses.LoadBalancerIPs], for type
//	ipMode                                 LoadBalancer only
//	loadBalancerSourceRanges               [Addresses.SourceRanges], for type
//	                                       LoadBalancer only
//	sessionAffinity and its timeout        [Service.AffinityTimeout]
//	healthCheckNodePort                    [Service.HealthCheckNodePort]
//	creationTimestamp                      [Service.Created]
//	what Options.Filter and Ext read       whether it exists; [Service.Ext]
//
// A bad value is left out and reported by its API path; the rest of the Service
// works. All addresses are canonical: IPv4 octets with leading zeros are read as
// decimal, as the API server does, and an IPv4 address mapped into IPv6 counts as
// IPv4. An unspecified, loopback, link-local or link-local multicast address is a bad value, as
// the API refuses it for external IPs; a ClusterIP may be link-local unicast.
//
// See the example of [ServiceChangeTracker].
package service
