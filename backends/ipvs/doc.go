// Package ipvs balances with IPVS, the load balancer in the Linux kernel: for a plan, with
// [Backend], or without Services at all, with [Reconciler].
//
// # Virtual servers without Services
//
// A [Reconciler] makes single virtual servers what they should be, and leaves all others alone.
// It works on a [Kernel]: the IPVS of the network namespace, from [Open], or one in memory, from package ipvstest. The program
// examples/apiservers shows how to use it.
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
// # Backend
//
//	object                     for what
//	virtual server by address  each frontend; NodePorts one for each address that serves them. Its
//	                           real servers are those that clients outside reach
//	virtual server by mark     a second pool, where pods and the node reach other endpoints than outside
//	                           (external traffic policy Local)
//	local route                each ClusterIP, external and load-balancer IP, so that the node takes its packets: it is
//	                           "bound". Not those that the machine has anyway. The node's address is the
//	                           source; protocol 86 and a metric that follows from the name tell ours from others
//	nftables table             one of family inet, for all that IPVS cannot do
//
// The table has one set or map of each kind for each family, and no object for a single Service:
//
//	frontends      all sites (address . protocol . port); also the record of which virtual servers are ours
//	bound          addresses with a local route: their unused ports refuse, or every port of the host were open there
//	cluster-ips    the same for ClusterIPs, bound or not
//	health-checks  healthCheckNodePorts, which are open on bound addresses but ClusterIPs
//	gone-ips       ClusterIPs that stay for old connections only: other packets drop
//	service-cidrs  ranges whose unused addresses drop
//	pods           where this node's pods send from
//	restricted, allowed  sites with source ranges, and the ranges
//	deny-ORIGIN    sites that reject or drop packets of pods, the node, or others
//	masquerade-ORIGIN    sites whose packets get the masquerade mark
//	pool-ORIGIN    sites whose packets get the mark of a virtual server
//	masquerade-marks     marks that are masqueraded if the node itself sends
//
//	hook         priority  what
//	prerouting   -150      sets marks; IPVS compares all 32 bits, so the whole value
//	output       -150      the same for the node's own packets
//	output       -110      refuses, drops and source ranges for the node's own packets; IPVS takes them at -98
//	input           0      the same for others; IPVS takes them at 99
//	forward         0      the same for addresses that are not bound
//	postrouting   100      masquerades; also what goes back to its sender, over the chains hairpin-4 and hairpin-6
//
// An external or load-balancer IP that an interface of the machine has is not bound: whoever listens there is reached.
//
// A Sync makes virtual servers by mark first, then what refuses new packets, addresses, and virtual servers by address, and
// last removes what nobody wants. A port that the kernel refuses stays as it was, and the others are written. What is in the table before a virtual server is made, and until it is gone, is ours, as are our routes and marks
// with our upper eight bits. Other virtual servers stay, unless a Service claims the very same address and port.
//
// An endpoint that is gone drains as a real server does. A port that is gone while its address stays refuses new connections
// until the old ones have ended. A ClusterIP that goes stays bound as long, and leaves new packets unanswered. If an external or load-balancer IP goes, its
// connections end at once: it may belong to another machine now.
//
// # What IPVS does otherwise
//
//	case                                  what happens                          reason
//	unused port of an external or         refused, but for healthCheckNodePorts; the address is on the node
//	load-balancer IP                      the plan lets it pass
//	UDP flow to an endpoint that is       goes on at another endpoint, or ends  IPVS knows no end of a flow that
//	removed                               if there is none; an answer that is   could be waited for
//	                                      under way may be lost
//	external or load-balancer IP that     its connections end                   the address has to leave the node
//	is removed
//	affinity timeout                      counts from the end of a client's     the kernel keeps the template of a
//	                                      last connection, which for TCP is     client while it has connections
//	                                      some minutes after it was closed
//	another affinity timeout              not for clients that have an          it is copied into the template
//	                                      endpoint already
//	affinity of several frontends         each frontend has its own             persistence belongs to a virtual server
//	NodePorts on loopback and IPv6        not served                            answers could not come back
//	link-local addresses
//	choice of the endpoint                by scheduler, not at random           rr is exact
//	pods masqueraded to another pool      not possible: the port is reported    one mark has one treatment; no
//	than clients outside                                                        policy asks for it
//
// The conformance suite asserts the unused ports, UDP, both lines on the affinity timeout and the NodePorts
// (backendtest.BoundAddresses, NoUDPDrain, LongAffinity, NoLoopbackNodePorts); the tests of this package assert the others.
//
// # Requirements
//
// Linux (tried: 6.1) with the modules ip_vs and ip_vs_NAME for each scheduler; nft 1.0.1; CAP_NET_ADMIN. [Open] runs
// modprobe; where it fails although the kernel has IPVS, github.com/moby/ipvs tells so on standard
// error, through logrus. On other systems than Linux, Open and New return an
// error that is [errors.ErrUnsupported]; Render, and a Reconciler in memory, work everywhere.
//
// [Backend.Prepare] sets the kernel's switches: net.ipv4.vs.conntrack, without which nothing is masqueraded;
// expire_nodest_conn, so that flows to endpoints that are gone end; expire_quiescent_template, so that clients with affinity leave an endpoint that drains;
// forwarding; and with [Options] StrictARP, arp_ignore and arp_announce. A user of the Reconciler sets the middle two.
//
// # Cost
//
// A Sync that is not full reads the real servers of each virtual server that changes, and sends one request to IPVS for each real server
// that is new or has another weight, and up to three for one that goes, however many Services there are; nft runs only if a frontend comes, goes, or is refused from now on. A full Sync
// lists the table with one run of nft, all virtual servers and the real servers of each of ours, and replaces the table in one transaction; [Backend.Check] reads the same. After a change
// of the node's configuration all ports are compiled, and only what differs is written.
//
// An address that an interface gets after it was bound, or loses after it was found there, is noticed by the next full Sync; Check notices
// the former too.
package ipvs
