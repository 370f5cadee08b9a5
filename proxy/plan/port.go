package plan

import (
	"cmp"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/internal/printable"
	"github.com/vipkit/vipkit/proxy/service"
	"github.com/vipkit/vipkit/topology"
)

// A Key names a Service port in one IP family.
type Key struct {
	service.PortName
	Family corev1.IPFamily
}

// Compare orders by namespace, name, port name, protocol and family.
func (k Key) Compare(o Key) int {
	return cmp.Or(k.PortName.Compare(o.PortName), strings.Compare(string(k.Family), string(o.Family)))
}

// A Port is everything that a data plane needs for one Service port in one
// family. It is immutable; a Port that did not change is the same pointer in the
// next Plan.
type Port struct {
	Key

	// Frontends are those that the port owns, sorted by kind, address and port;
	// never empty: a port that lost all of them to others is not in the Plan.
	Frontends []Frontend

	// Cluster and Local are the pools that actions name, sorted by
	// [endpoints.Compare]. A pool that no action names may still be filled.
	Cluster, Local []*endpoints.Endpoint

	// Reachable is the union of both pools, sorted.
	Reachable []*endpoints.Endpoint

	// Serving are all endpoints with the serving condition, whatever policies
	// and topology say, sorted: established flows to them are left alone.
	Serving []*endpoints.Endpoint

	// AffinityTimeout is how long a client stays with an endpoint after its last
	// connection to this port, whichever frontend it used; 0 means no affinity.
	AffinityTimeout time.Duration

	// HealthCheckNodePort is the port of the Service's health check, 0 if none.
	HealthCheckNodePort uint16

	// Mode and Reason say how topology narrowed the cluster pool.
	Mode   topology.Mode
	Reason string

	// Ext is the Service's Ext.
	Ext any
}

// A FrontendKind is the kind of address that clients dial.
type FrontendKind uint8

// The kinds of frontends. If several claim one address, the first in this
// order wins, but for a load-balancer IP, which beats an external IP.
const (
	ClusterIP FrontendKind = iota
	ExternalIP
	LoadBalancerIP
	NodePort
)

// A Frontend is an address and port that clients dial.
type Frontend struct {
	// Addr is invalid for a NodePort, which is served on the addresses that
	// [Plan.NodePortAddresses] returns.
	Addr netip.Addr
	Port uint16
	Kind FrontendKind

	// Actions is what happens, by [Origin].
	Actions [NumOrigins]Action

	// Restricted says that only sources in Allow may use the frontend, whatever
	// their origin; the others are dropped. Allow is sorted, and no range is inside another; it is
	// empty if nobody may.
	Restricted bool
	Allow      []netip.Prefix
}

// An Origin is where a packet comes from.
type Origin int

// The origins of packets.
const (
	FromPod     Origin = iota // a pod of this node; like outside if pods of the family cannot be told apart
	FromNode                  // a process in the host's network of this node
	FromOutside               // everything else
	NumOrigins  = 3
)

// An Action is what happens to a packet of one origin at one frontend.
type Action struct {
	Verdict Verdict

	// Pool is where a forwarded packet goes; NoPool for the other verdicts.
	Pool Pool

	// Masquerade says that the source address becomes the node's. A hairpin is masqueraded in any case, and a packet
	// from elsewhere that ends on the node itself in none; see [Plan.Masquerades].
	Masquerade bool
}

// A Verdict is what happens to a packet.
type Verdict uint8

// The verdicts.
const (
	Pass    Verdict = iota // not ours, goes on untouched; only in a [Trace]
	Forward                // to an endpoint
	Reject                 // refused with an ICMP error
	Drop                   // silently
)

// A Pool is one of the two lists of endpoints of a Port.
type Pool uint8

// The pools.
const (
	NoPool Pool = iota
	ClusterPool
	LocalPool
)

// Endpoints returns the endpoints of a pool.
func (p *Port) Endpoints(pool Pool) []*endpoints.Endpoint {
	if p == nil {
		return nil
	}
	switch pool {
	case ClusterPool:
		return p.Cluster
	case LocalPool:
		return p.Local
	case NoPool:
	}
	return nil
}

// A Conflict is a claim for an address that another Service port has.
type Conflict struct {
	Addr         netip.AddrPort // the address is invalid for a NodePort
	Protocol     corev1.Protocol
	Owner, Loser service.PortName
}

// A Problem is something in the input that was left out. Its fields have names and values as
// the object has them, which may be hand-made; String escapes what cannot be printed.
type Problem struct {
	Object string // as in "Service default/web" or "Node a"
	Field  string // API path, as in "spec.externalIPs[1]"
	Err    string
}

// String returns object, field and error on one line, fit for a log or a terminal.
func (p Problem) String() string { return printable.Text(p.Object + ": " + p.Field + ": " + p.Err) }
