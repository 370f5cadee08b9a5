package plan

import (
	"cmp"
	"iter"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/service"
	"github.com/vipkit/vipkit/topology"
)

// A Plan is the desired state of one node: for every Service port what happens
// to which packet. It is immutable, safe for concurrent use, and stays valid
// for as long as somebody keeps it; Plans share all that did not change.
type Plan struct{}

// New returns the Plan of a node without Services.
func New(cfg Config) *Plan { panic("not yet") }

// Input is what changed since a Plan was made.
type Input struct {
	// Config is the new configuration, nil if it did not change.
	Config *Config

	// Services and Endpoints have the new version of every object that changed,
	// nil if it is gone. Endpoints may come before their Service and stay when
	// it goes.
	Services  map[types.NamespacedName]*service.Service
	Endpoints map[types.NamespacedName]*endpoints.Set
}

// A Diff names what differs between a Plan and the one that Update made of it.
type Diff struct {
	Ports  []Key                  // sorted
	Health []types.NamespacedName // Services whose Health differs, sorted
	Config bool                   // the configuration differs
}

// Update returns the Plan that in makes of p, and what is different. p is
// unchanged. Only the Services named by in, and those that share an address
// with them, are computed again; a change of the configuration computes all.
// The same objects in any order of updates give equal Plans.
func (p *Plan) Update(in Input) (*Plan, Diff) { panic("not yet") }

// Hold returns p with the given ports as they were before: nil removes the port.
// It is how a consumer is shown what another one could not do.
func (p *Plan) Hold(ports map[Key]*Port) *Plan { panic("not yet") }

// Config returns the configuration. Its slices must not be changed.
func (p *Plan) Config() Config { panic("not yet") }

// Len returns the number of ports.
func (p *Plan) Len() int { panic("not yet") }

// Port returns the port named k, nil if there is none.
func (p *Plan) Port(k Key) *Port { panic("not yet") }

// All yields every port in the order of [Key.Compare].
func (p *Plan) All() iter.Seq[*Port] { panic("not yet") }

// Lookup returns the port that owns the frontend at an exact address, and the
// frontend. NodePorts are found by an invalid address.
func (p *Plan) Lookup(dst netip.AddrPort, proto corev1.Protocol) (*Port, *Frontend) { panic("not yet") }

// IsClusterIP reports whether some port has a frontend of kind ClusterIP there:
// its unused ports reject.
func (p *Plan) IsClusterIP(a netip.Addr) bool { panic("not yet") }

// NodePortAddresses returns on which addresses of this node NodePorts of one
// family are served.
func (p *Plan) NodePortAddresses(f corev1.IPFamily) NodePortAddresses { panic("not yet") }

// Health returns what the health check of a Service answers from; ok is false
// if the Service has no health-check port.
func (p *Plan) Health(name types.NamespacedName) (h Health, ok bool) { panic("not yet") }

// AllHealth yields every Service with a health-check port, by namespace and name.
func (p *Plan) AllHealth() iter.Seq[Health] { panic("not yet") }

// Conflicts lists the claims that lost, by address, protocol and loser.
func (p *Plan) Conflicts() []Conflict { panic("not yet") }

// Problems lists what is wrong with the configuration.
func (p *Plan) Problems() []Problem { panic("not yet") }

// Trace tells what happens to a packet.
func (p *Plan) Trace(packet Packet) Trace { panic("not yet") }

// String returns the whole plan as text: equal plans give equal text.
func (p *Plan) String() string { panic("not yet") }

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

	// Frontends are sorted by kind, address and port; never empty.
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
type FrontendKind int

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
	Kind FrontendKind

	// Addr is invalid for a NodePort, which is served on the addresses that
	// [Plan.NodePortAddresses] tells.
	Addr netip.Addr
	Port uint16

	// Restricted says that only sources in Allow may use the frontend, whatever
	// their origin; the others are dropped. Allow is sorted; it is empty if nobody may.
	Restricted bool
	Allow      []netip.Prefix

	// Actions is what happens, by [Origin].
	Actions [NumOrigins]Action
}

// An Origin is where a packet comes from.
type Origin int

// The origins of packets.
const (
	FromPod     Origin = iota // a pod of this node, as far as it can be told apart
	FromNode                  // a process in the host's network of this node
	FromOutside               // everything else
	NumOrigins  = 3
)

// An Action is what happens to a packet of one origin at one frontend.
type Action struct {
	Verdict Verdict

	// Pool is where a forwarded packet goes; NoPool for the other verdicts.
	Pool Pool

	// Masquerade says that the source address becomes the node's, except towards
	// an endpoint on the node itself, which only the node's own packets pass
	// the masquerading hook for. A packet whose source is the chosen endpoint (hairpin) is
	// masqueraded whatever Masquerade says.
	Masquerade bool
}

// A Verdict is what happens to a packet.
type Verdict int

// The verdicts.
const (
	Pass    Verdict = iota // not ours, goes on untouched; only in a [Trace]
	Forward                // to an endpoint
	Reject                 // refused with an ICMP error
	Drop                   // silently
)

// A Pool is one of the two lists of endpoints of a Port.
type Pool int

// The pools.
const (
	NoPool Pool = iota
	ClusterPool
	LocalPool
)

// Endpoints returns the endpoints of a pool.
func (p *Port) Endpoints(pool Pool) []*endpoints.Endpoint {
	switch pool {
	case ClusterPool:
		return p.Cluster
	case LocalPool:
		return p.Local
	default:
		return nil
	}
}

// Health is what the health check of a Service answers from.
type Health struct {
	Name types.NamespacedName
	Port uint16 // healthCheckNodePort, not 0

	// Local are the distinct addresses of the Service's endpoints that are ready
	// and on this node, over all its ports and slices and both families, sorted.
	Local []netip.Addr
}

// A Conflict is a claim for an address that another Service port has.
type Conflict struct {
	Addr         netip.AddrPort // the address is invalid for a NodePort
	Protocol     corev1.Protocol
	Owner, Loser service.PortName
}

// A Problem is something in the input that was left out.
type Problem struct {
	Object string // as in "Service default/web" or "Node a"
	Field  string // API path, as in "spec.externalIPs[1]"
	Err    string
}
