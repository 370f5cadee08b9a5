// Package iptables brings a plan into the kernel with iptables-restore, for nodes whose
// kernel or network plug-in is not ready for nftables. It works with both variants of the
// iptables programs, nft and legacy.
//
// # Chains
//
// All chains begin with a prefix, VIPKIT unless [Options] say other. One jump in each of six
// built-in chains leads to them. Table nat:
//
//	PREROUTING, OUTPUT  SERVICES  -> IPS (by address, protocol and port)
//	                              -> PORTS (by protocol and port, on addresses with NodePorts)
//	IPS, PORTS          tree of chains D-… -> F-… source ranges -> R-… row by origin -> S-…, T-… pool
//	POSTROUTING         POSTROUTING -> HAIRPIN (source = destination), then what is marked is masqueraded
//
// Table filter, where only first packets that nothing translated are looked at:
//
//	INPUT               health checks are accepted -> DENY
//	FORWARD             -> DENY -> CLUSTER; what is marked, and all answers, are accepted
//	OUTPUT              -> DENY -> CLUSTER
//	DENY                tree by address or NodePort: reject, drop, source ranges (X-…, Y-…)
//	CLUSTER             unused ports of ClusterIPs reject, unused Service addresses drop
//
// A chain of a tree that has more than sixteen sites is split into groups of sites with the same first bits, of at most a
// quarter as many: a packet to the last of 10,000 Services is compared with less than 64 rules, all chains together, and
// a tree of a million sites has at most nine chains below each other, whatever their addresses. The kernel of
// nftables refuses more than fifteen in all.
// A port whose packets all come by one row needs no R-… chain. The pool's chain holds a DNAT rule for each endpoint, so with n endpoints a packet
// passes n/2 more on average.
//
// The first rule of a chain has a comment with a digest of the chain's rules. [Backend.Sync] and [Backend.Check] compare it
// with what they want, and with the rules that are really there, whatever a version of iptables adds to them when it
// prints them. Where it prints them in a way that is not known, they say so and compare the number of rules.
//
// # A Service that is refused
//
// If iptables-restore or the kernel refuses a part of what is restored, the Backend finds out which Service ports it is, a few
// programs for each, and writes the others; see [plan.PartialError]. The text of an error tells the line. Errors that say nothing of
// the input, such as that of a lock that is taken or of missing rights, are those of the whole Sync.
//
// # Limits
//
//   - Session affinity is kept by the kernel's module recent, one list for each endpoint. A list
//     remembers 100 clients (module parameter ip_list_tot), then forgets the one it
//     heard of longest ago, who is spread anew. A client's time counts from its last new
//     connection. Lists can be seen in /proc/net/xt_recent.
//   - The kernel replaces a legacy table as a whole: what is restored is small, but the
//     kernel's part grows with the number of rules.
//   - What is refused may have been preceded by a commit of the other table, which is then undone: for that moment
//     connections to the frontends of one Sync can be dropped or rejected.
//   - The two tables are committed one after the other, not together. In between, a connection
//     to a frontend that changes can be dropped or rejected, but not misrouted.
//   - FORWARD accepts what is marked for masquerading and all answers, as kube-proxy's
//     rules do, before rules of others further down see it.
//   - A port that a NodePort or external address does not forward from some origin ends
//     table nat for these packets: rules of others behind our jump do not translate them.
//   - Chains of the other variant are not looked at, but by [Backend.Cleanup]. Call it before
//     the variant or the prefix is changed.
package iptables
