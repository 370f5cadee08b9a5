// Package nftables brings a plan into the kernel with nftables: one table in family
// ip and one in ip6, both changed in one transaction.
//
// # Model
//
// A verdict in the map of frontends names what is done with a packet, never a Service: all Service ports with the
// same row of the decision table of package plan share one chain. Another map has the number of endpoints
// of each frontend, which leads to a chain that looks up the endpoint by frontend and a random slot.
// Changing a Service changes elements of maps only, so a change costs the same
// with a thousand and with fifty thousand Services, and no chain, set or map is
// made for an ordinary Service.
//
//	object                    kind   content
//	service-ips               map    address . proto . port : verdict, all frontends but NodePorts
//	service-nodeports         map    proto . port : verdict
//	sizes                     map    address . proto . port : endpoints in the cluster pool, as 0:hex
//	picks                     map    proto . number : goto pick-P-N
//	endpoints-P               map    address . port . slot : endpoint, P is tcp, udp or sctp
//	row-SHAPE                 chain  what to do by origin, then pick or local-pick
//	pick                      chain  looks up the size, then the chain in picks
//	pick-P-N                  chain  one of N endpoints of the cluster pool (slots 0 to N-1)
//	local-sizes, -picks, -pick, -pick-P-M  the same for the local pool (slots from 65536)
//	nodeport-…                both   the same without the address, for NodePorts
//	no-endpoint-ips           map    frontends that reject or drop what was not forwarded
//	no-endpoint-nodeports     map    the same for NodePorts
//	restricted-ips            set    frontends with source ranges
//	allowed-sources           set    address . proto . port . range
//	restricted-nodeports, allowed-nodeport-sources  the same for NodePorts
//	cluster-ips               set    ClusterIPs: their unused ports reject
//	service-cidrs             set    Service CIDRs: their unused addresses drop
//	pod-cidrs                 set    where this node's pods send from
//	nodeport-addresses        set    where NodePorts are served
//	hairpin                   chain  masquerades packets that go back to their sender: source and destination are equal
//	affinity-HASH-…           both   what a Service port with ClientIP affinity has of its own
//	layout-HASH               chain  empty; says which version and options made the table
//
// A shape has one letter for each origin, in the order pod, node, outside: c and l for the
// cluster and the local pool, C and L for the same with masquerading, x for not translated.
// The comment of a rule is a hash of it, the comment of an element its Service port.
//
// # For authors of CNI plug-ins and network policies
//
//	hook         priority  what
//	prerouting   -110      source ranges: drop, new flows only, nothing that comes in through lo
//	output       -110      the same for the node's own packets
//	prerouting   -100      DNAT to endpoints, sets the masquerade mark
//	output       -100      the same for the node's own packets
//	input           0      reject and drop of what was not translated: frontends, NodePorts
//	forward         0      the same: frontends, ClusterIPs, Service CIDRs
//	output          0      the same
//	postrouting   100      masquerade marked packets and hairpins, clears the mark
//
// Before -100 a packet has the frontend as its destination, after it the endpoint. Rules for what pods may
// reach belong after it, at any priority above -100. The mark is one bit of the packet mark (0x4000 unless [Options] say
// other) between -100 and postrouting, set and cleared by or and xor, so other bits
// survive; the first packet of a flow only has it. The conntrack mark is not used. The first packet of a flow to
// a Service port loses its priority (SO_PRIORITY). Nothing is accepted: a drop elsewhere stays a drop. Other programs
// must not change the tables; what they add is removed by the next full Sync.
//
// # Requirements and limits
//
// nft 1.0.1 and Linux 5.13 or newer, with the rights to change the network namespace
// (CAP_NET_ADMIN); [Backend.Probe] names what is missing. A process with these
// rights only inside its user namespace can send some hundred statements at once: first Syncs then take
// several transactions, and a Service port with more than a few hundred endpoints fails.
//
// NodePorts are not served on loopback addresses. Source ranges are checked for new flows only. On Linux 6.1 a flow
// that begins while source ranges are replaced can be dropped although the old and the new ones allow it: that kernel does
// not replace ranges in one step.
// Affinity belongs to a Service port, not to a Service, and is shared by its frontends; a client beyond the
// limit of [Options] is spread as if there were none. Packets of other hosts that end on an endpoint on the
// node's own address are not masqueraded.
//
// # Cost
//
// Tables, chains, rules, sets and maps are written by nft. Elements alone, which is what most changes and nearly all of
// a first Sync are, go to the kernel over netlink: no process is started, and no text is read. A first Sync is
// cut into pieces, each complete for its Service ports, so that the kernel never is busy for long with one commit. If the kernel refuses what
// nft could write, the Backend uses nft for everything from then on.
//
// A Sync that is not full reads nothing, nor does a full one if nobody else has committed anything to nftables since the
// tables were read. Reading them, after a start, an error or a commit of somebody else, takes seconds for 100,000
// endpoints; [Backend.Check] reads all rules, and of the elements about 50,000 each time.
package nftables
