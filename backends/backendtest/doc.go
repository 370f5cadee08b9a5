// Package backendtest is the conformance suite for data planes: it plays scenarios against any
// [backends.Backend] and compares what happens to real packets, and what
// [plan.Plan.Trace] says about them, with what the scenario says by hand.
//
//	func TestConformance(t *testing.T) {
//		backendtest.Run(t, backendtest.Config{
//			New: func(t *testing.T) backends.Backend { return mine.New() },
//		})
//	}
//
// Every scenario gets a network of its own (see package netlab), so they run in parallel: the node, two of its
// pods as endpoints and one as a client, a second node with pods, and clients
// outside. A scenario changes Services, EndpointSlices and settings of the node in
// steps. After each step packets of every origin are sent, from new source ports: 20
// for each endpoint, each of which must be reached at least once, and only those.
// Compared are the endpoint, the source address that it saw, whether other packets are
// refused or dropped, and whether clients with session affinity stay. What must be dropped is silent for longer than another packet
// takes to be answered. While a step is applied, connections that work before and after it are made all the time, and
// none may be lost.
//
// After the last step a new Backend takes over what the old one left, and everything is checked again. Cleanup must remove it. Then
// Services change while no Backend runs, as they did in the last step, and later all of them end: a new Backend
// must bring that in order. Of an [Imager] all that is in the data plane is compared too, with what an empty one is given.
//
// At the end, new TCP connections are made as fast as the machine can while the endpoints of
// a Service leave one after the other, without and with session affinity: not one may fail.
//
// A backend without a kernel has a method Trace(plan.Packet) plan.Trace, which is asked
// instead of sending packets; [Config.Node] makes its data plane, so that restarts are tried too. A backend may have a method
// Dump(context.Context) string, whose text is shown with failures. What a data plane cannot do is declared in
// [Config.Limits]; scenarios say what happens then.
//
// A backend that is a [Faulter] is tried with failures: Services that the data plane refuses, addresses that move
// while one side is refused, an error at each write in turn, and reads that fail.
//
// Tests skip only where the kernel or the user's rights do not allow them, and not
// at all if the environment variable VIPKIT_REQUIRE_KERNEL is set. Where the kernel has no
// SCTP sockets, SCTP is loaded and traced, but not sent; if VIPKIT_REQUIRE_KERNEL contains
// "sctp", that is a failure too. In a slow virtual machine, VIPKIT_QUICK makes it 4 packets for
// each endpoint, as long as all are reached, instead of 20.
//
// # Scenario files
//
// A scenario is a text file of sections, each with its name in a line above it. Text before
// the first section says what it is about. Sections are changes, and "expect" after them:
//
//	-- config --    families, protocols, zone, pod-cidrs, pod-interfaces, nodeport-addresses,
//	                masquerade-all, service-cidrs, deny-invalid-ranges, node-addresses, listen
//	-- objects --   Services and EndpointSlices as YAML, added or replaced
//	-- delete --    lines of KIND NAMESPACE/NAME
//	-- refuse --    lines of NAMESPACE/NAME: Services that the data plane refuses in this step, for a Faulter
//	-- expect --    lines of FROM -> PLACE:PORT => RESULT
//
// Addresses have names such as client, node, a or vip, the same for both families; $vip is
// the address in YAML, $FAMILY and $PROTOCOL are those of the variant that is played.
package backendtest
