// Package conntrack removes UDP flows that a change of the plan has made stale, so that the
// next packet of a client meets the new rules.
//
// A UDP flow lives in the connection-tracking table as long as packets keep coming, and the rules
// see its first packet only. A client that uses one socket would be sent to a removed
// endpoint for hours. TCP and SCTP end by themselves, and cutting them would break a
// graceful end: they are never touched.
//
// # Which flows are stale
//
// A [Judge] decides, and does no I/O. It looks at the flows to frontends that a Delta is about:
//
//	the flow's destination                    it is stale if it
//	is a frontend now, with serving           was translated to anything else, or never was
//	endpoints
//	is a frontend now, without any            was translated
//	was one in a version that may have        was translated
//	been in place, and is none now
//	is an unused port of a ClusterIP, and     was translated
//	the Delta is Full
//	is anything else                          never
//
// "Serving" is plan.Port.Serving: neither policies nor hints nor readiness cut a flow, as
// they do not cut a TCP connection. A NodePort is a frontend on the addresses that serve
// NodePorts, not a number: a flow through the node to somebody else's port 30053 is kept.
//
// # How it is done
//
// A [Cleaner] is a consumer of Deltas that comes after the backend: rules first, then flows. If
// no UDP frontend and no serving endpoint changed it does nothing at all. Else it asks
// the kernel for the UDP flows of the family (Linux 5.8 and later filter, before that
// we do), looks at them one by one as they come in, and deletes the stale ones one by one. The memory
// needed is that of the frontends that changed, however many flows there are. What
// fails is done again by the proxy's next round.
//
// [Settings] are the sysctls that kube-proxy sets when it starts. Nothing here sets
// them by itself.
package conntrack
