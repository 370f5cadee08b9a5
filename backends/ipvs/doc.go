// Package ipvs balances with IPVS, the load balancer in the Linux kernel.
//
// # Virtual servers
//
// A [Reconciler] makes single virtual servers what they should be: it needs neither
// Services nor a plan, and leaves all others alone. It speaks to a [Kernel]: the IPVS of the
// network namespace, from [Open], or a [Memory] for tests and examples.
//
//	Ensure  makes a virtual server with its real servers, changes in place what differs
//	Drain   takes a virtual server out of service, and removes it once nothing is connected
//	Remove  removes a virtual server now
//	Get     reads a virtual server back, with the connections of its real servers
//	Sweep   removes what has drained meanwhile
//
// A real server that is not wanted any more and has TCP or SCTP connections gets weight 0, and is removed when
// they have ended, at the latest at a deadline. The deadline is kept in the kernel, in the connection
// thresholds of the real server, so it survives a restart. A real server for UDP goes at once:
// its flows have no end that could be waited for.
//
// # Requirements and limits
//
// Linux with the modules ip_vs and ip_vs_NAME for each scheduler, and CAP_NET_ADMIN. [Open] runs
// modprobe, once in a process, and what it cannot load is reported on the standard
// error through logrus: both are habits of github.com/moby/ipvs. On systems other than Linux, Open returns an
// error that is [errors.ErrUnsupported].
//
// For connections of removed real servers to end instead of hanging, and for persistent clients to leave a real server
// at weight 0, set net.ipv4.vs.expire_nodest_conn and net.ipv4.vs.expire_quiescent_template to 1.
package ipvs
