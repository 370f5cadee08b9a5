// Package allocator hands out what Services get from a cluster: ClusterIPs, node
// ports and health-check node ports. It is the control-plane half of Service
// virtual IPs, for API servers of virtual clusters, for load-balancer and
// multi-cluster controllers, and for tests.
//
// It is not a proxy, and stands apart from the other packages of this module. It
// has no client, no informer, no goroutine, no log and no metrics registry: what
// it needs to know comes in as values, and what talks to an API server does so
// through small interfaces that the clients of client-go satisfy as they are.
//
// # Model
//
// A range is a row of numbers, in two bands. Explicit requests may ask for any
// number; automatic picks take one of the dynamic band, each free one with the
// same probability, and from the static band only when the dynamic one is full.
// So addresses that people choose and addresses that are chosen for them collide
// rarely. Who holds a number is an [Owner], and only the owner can release it.
//
//   - [Pool] and [PortPool] keep one range in memory.
//   - [MultiCIDR] keeps a changing set of ServiceCIDRs, over a [Store] that several
//     processes share: IPAddress objects, for instance ([NewIPAddressStore]).
//   - [Plan] says what a change of a Service needs and gives up. [Services.Apply]
//     claims it, [Txn.Commit] gives up the rest once the Service is stored, and
//     [Txn.Rollback] undoes all if it is not.
//   - [AddressRepair], [PortRepair] and [BitmapRepair] compare Services with what
//     is held and say what to do.
//
// The rules are those of Kubernetes 1.37, with the faults of its allocators left
// out: nothing leaks when a second claim fails, nothing is released before the
// change is stored, picks do not cluster, ranges that overlap are counted once,
// "full", "not ready" and "no range" are different errors, and dry runs tell the
// truth. Where somebody may depend on the difference there is a switch:
// [DryRunMode] and [ClusterConfig].
//
// # Cost
//
// For n numbers in use; none depends on how full the range is.
//
//	operation                 range up to 2^24      larger, IPv6 /64     MultiCIDR with r ranges
//	Claim, Reserve, Release   O(1)                  O(log n)             O(log n + log r), and the store
//	Pick                      O(1), ≤ 256 steps     O(log n)             O(log n + r), and the store
//	Has, Owner                O(1)                  O(log n)             the store
//	Stats                     O(1)                  O(1)                 O(r·(r + log n))
//	All, snapshots            O(n)                  O(n)                 –
//	memory                    1/8 byte a number     ≈ 40 bytes a run     ≈ 200 bytes an address
//
// An owner costs about 100 bytes beside that. For q numbers in quarantine, what
// starts or ends one costs O(log q) more, and about 100 bytes for each.
//
// # Nil
//
// Nil pointers and interfaces are errors, or count as nothing, in all functions and
// fields. The exceptions: a type that needs a constructor panics without, and so
// does a nil context, or a nil pointer in an interface.
//
// # Getting started
//
// See the examples of [Pool], [Services.Apply], [MultiCIDR] and [AddressRepair].
package allocator
