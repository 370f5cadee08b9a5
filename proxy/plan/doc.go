// Package plan decides what happens to which packet on one node.
//
// It is pure: no I/O, clock, log, goroutine or context. From Services, endpoints
// and the node's configuration it makes a [Plan], and from two Plans the [Delta]
// that a consumer has to work off. Backends turn the Plan's rows into rules and
// decide nothing; [Plan.Trace] says what those rules must do to a packet.
//
// # Model
//
//   - A [Port] is a Service port in one IP family: frontends, two pools of
//     endpoints, session affinity.
//   - A [Frontend] is an address and port that clients dial, with one [Action] for
//     each [Origin] of a packet and the source ranges that may use it.
//   - [Plan.Update] makes the next Plan from what changed. It costs what changed;
//     Plans share the rest. The same objects in any order give equal Plans.
//   - A [Cursor] remembers what one consumer may have in place, through failures,
//     and makes its Deltas.
//
// # Decision table
//
// "cluster" and "local" are the pools that package topology chose; "masq" means
// that the source becomes the node's. The policy is internalTrafficPolicy for a
// ClusterIP and externalTrafficPolicy for the external kinds: external IP,
// load-balancer IP and NodePort.
//
//	frontend   policy                  pod            node           outside
//	ClusterIP  Cluster                 cluster²       cluster masq¹  cluster masq¹
//	ClusterIP  Local, has local        local²         local masq¹    local masq¹
//	ClusterIP  Local, none local       drop           drop           drop
//	external   Cluster                 cluster masq   cluster masq   cluster masq
//	external   Local, has local        cluster        cluster masq   local
//	external   Local, none local       cluster        cluster masq   drop
//	any        no usable endpoint      reject         reject         reject
//	           anywhere
//
//	¹ only if pods of the family can be told apart (the node has a pod CIDR of the
//	  family, or there are pod interfaces), or with MasqueradeAll
//	² masq with MasqueradeAll
//
// Pods that cannot be told apart count as outside. What tells them apart must
// name the node's own pods only: with the cluster's CIDR a pod of another node that
// dials a Local frontend of this one counts as pod, and is sent on to the cluster.
//
// Around the table:
//
//   - Source ranges bind load-balancer IPs only, every origin, and act before all else.
//   - An exact address beats a NodePort with the same number, even if it has no endpoints.
//   - What is decided for a port without endpoints is for packets sent to its address, not for
//     packets that another Service translated to it.
//   - A source range that has an address of the node, whichever, admits the node.
//   - NodePortAddresses chooses among Node.Addresses, except for "all", where kernels take every local
//     address; see [Trace.IfLocal].
//   - Other ports of a ClusterIP reject; addresses in a Service CIDR that no
//     Service has drop; all else passes untouched.
//   - A packet that is sent back to its source is always masqueraded (hairpin), wherever the endpoint is
//     said to run: without that no answer comes back through the node.
//   - An endpoint on the node's own address keeps the source of every packet from
//     elsewhere: such a packet does not pass the hook that masquerades.
//   - Affinity belongs to a Port, not to a Service, and only chooses within the
//     pool of the action.
//
// # One owner
//
// If several Service ports claim one address, port and protocol, one owns it: a
// ClusterIP comes before a load-balancer IP before an external IP, then the oldest
// Service, then the name. The others are listed by [Plan.Conflicts], keep their
// other frontends, and take over by themselves when the owner leaves. A port
// without any frontend left is not in the Plan. Claims within one Service are no
// conflict.
package plan
