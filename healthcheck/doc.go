// Package healthcheck tells others how a proxy does: whoever watches the proxy on
// /healthz and /livez, and load balancers on the healthCheckNodePort of each Service.
//
// # Model
//
// A [Health] holds the state of one or more loops, each with a name: "IPv4" and "IPv6"
// if every family has a loop of its own, or one name if one loop serves both. A [Loop] hears when
// something begins to wait (Queued) and when all is done (Updated). It is late if
// something has waited for the timeout or longer. A loop that has nothing to do for
// days is healthy, and one that never started is not judged.
//
//	              200 if                                      says
//	/livez        no loop is late                             may the process go on living
//	/healthz      no loop is late and the node is eligible    may new connections come to this node
//	Service port  no loop is late and there is a ready        may new connections to this
//	              endpoint of the Service on the node, of     Service come to this node
//	              the family that is asked on
//
// Everything else is a 503. A liveness probe belongs on /livez: on /healthz it would restart
// the proxy of a node that is only about to leave.
//
// # Use
//
// [Services] is a consumer of plan.Deltas and passes Queued and Updated to its Loop, so
// package proxy takes it as it is, behind the Backend. [Health.Serve] serves /healthz and /livez.
// Nothing here needs a Node object or a client; [Eligible] reads a Node for those who have one.
package healthcheck
