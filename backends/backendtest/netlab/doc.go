// Package netlab builds small networks out of Linux network namespaces and sends
// traffic through them: one node with its pods, clients and other nodes around it.
//
// A [Lab] has a node namespace in the middle. Every [Host] is a namespace of its own
// on the other end of a veth pair and has its default route through the node, so
// the node's rules see every packet between two hosts, in both directions:
//
//	client ── eth0 ┐        ┌ veth-a ── pod a
//	               ├─ node ─┤
//	remote ── eth1 ┘        └ veth-b ── pod b
//
// Namespaces have no name in the file system: when the program ends, or after
// [Lab.Close], nothing is left. Nothing outside the namespaces is touched. It needs
// the rights to make a network namespace: root, or root in a user namespace of its own
// (unshare -rn).
//
// Servers answer with the address they were reached at and the one they saw as the
// client's; see [Lab.Serve] and [Lab.Probe]. TCP, UDP and, where the kernel has it,
// SCTP are served. On systems other than Linux everything returns an error that wraps
// [errors.ErrUnsupported].
//
// The package knows nothing of Kubernetes Services and does not need package testing.
package netlab
