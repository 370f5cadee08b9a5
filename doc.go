// Package vipkit is the root of a library for Kubernetes Service proxying: what
// kube-proxy does, as packages that a CNI plug-in or any other node agent puts together as it
// needs. This package itself has no code.
//
// # What it is
//
// Services and EndpointSlices go in, and out comes a plan: for every address
// that clients dial and every origin of a packet, what happens to it on this node. A backend
// makes the plan true in a data plane. Everything before the backend is free of
// I/O, so that the plan can be asked, printed and compared without a kernel.
//
//	 Services          EndpointSlices        Node, ServiceCIDRs
//	     │                   │                       │
//	proxy/service        endpoints                   │        trackers: objects to immutable values
//	     └─────► topology ◄──┘                       │        which endpoints this node uses
//	                 │                               │
//	             proxy/plan ◄────────────────────────┘        decision table, Delta, Trace
//	                 │
//	               proxy                                      loop, gates, retries, acknowledgement
//	   ┌─────────────┼──────────────────┬──────────────┐
//	backends/…   backends/conntrack   healthcheck   your own  consumers, in this order
//
// # Packages
//
//   - [github.com/vipkit/vipkit/proxy]: the whole pipeline behind one type. Most programs begin here.
//   - [github.com/vipkit/vipkit/backends]: what a backend is and how to write one;
//     its folders hold those that are there, a fake one, and the suite that all of them pass.
//   - [github.com/vipkit/vipkit/proxy/plan]: the desired state of a node, and what it says about a packet.
//   - [github.com/vipkit/vipkit/endpoints] and [github.com/vipkit/vipkit/proxy/service]: the trackers,
//     usable alone.
//   - [github.com/vipkit/vipkit/topology]: traffic policies, hints and terminating endpoints, as one pure function.
//
// # What it is not
//
// There is no daemon, no client-go, no flag, no global state, no metrics registry and, unless a
// logger is given, no log. How objects reach the proxy, and what becomes of its
// events, is the program's own business.
package vipkit
