package topology

import (
	"slices"
	"strconv"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/service"
)

// A Node is the place from which endpoints are looked at. The zero value is
// nowhere: no endpoint is local and no hint applies.
type Node struct {
	Name string // compared byte by byte; "" makes no endpoint local
	Zone string // label topology.kubernetes.io/zone, "" if none
}

// A Mode says by which hint the cluster pool was narrowed.
type Mode uint8

// The modes.
const (
	ModeNone Mode = iota // all ready endpoints
	ModeNode             // those hinted for this node (KEP-3015, PreferSameNode)
	ModeZone             // those hinted for this node's zone (KEP-2433, KEP-4444)
)

// String returns "node", "zone", or "" for ModeNone.
func (m Mode) String() string {
	switch m {
	case ModeNone:
		return ""
	case ModeNode:
		return "node"
	case ModeZone:
		return "zone"
	}
	return "Mode(" + strconv.Itoa(int(m)) + ")"
}

// A Selection is which endpoints of a Service port this node uses. Its lists
// are sorted by [endpoints.Compare]; "not used" and "empty" are both nil, the
// Policy tells which.
//
// The lists may share memory with each other and with the list that was given to
// [Select]: they must not be changed. Appending to one copies it.
type Selection struct {
	// Cluster is the pool for policy Cluster, Local the one for policy Local.
	Cluster, Local []*endpoints.Endpoint

	// Reachable is the union of both.
	Reachable []*endpoints.Endpoint

	// Any is false if no endpoint can be used from anywhere: clients are
	// rejected. It does not depend on the policy.
	Any bool

	// Mode is how Cluster was narrowed; ModeNone if Cluster is not used.
	Mode Mode

	// Reason says why no narrower mode applied, in words for people, as in "ready
	// endpoint 10.0.0.1:80 has no zone hint". It is "" where nothing was to be
	// explained: no endpoint has a hint of a narrower mode, or Cluster is not
	// used. It may change while the lists stay the same.
	Reason string
}

// Select chooses the endpoints that node uses under policy, by the rules in the
// package documentation. eps must be sorted by [endpoints.Compare], with one
// endpoint per address, as [endpoints.Set.Get] returns them; nil in it is left out.
//
// Select is pure: it keeps eps, but does not change it. It is linear in eps; a list
// that is eps or an unbroken part of it is not copied, so that nothing is
// allocated where all endpoints are ready and none has a hint.
func Select(eps []*endpoints.Endpoint, node Node, policy service.Policy) Selection {
	if slices.Contains(eps, nil) {
		eps = slices.DeleteFunc(slices.Clone(eps), func(e *endpoints.Endpoint) bool { return e == nil })
	}
	c := count(eps, node)
	s := Selection{Any: c.ready > 0 || c.usable > 0}
	if policy.UsesCluster() {
		s.Mode, s.Reason = c.mode(node)
		s.Cluster = cluster(eps, node, c, s.Mode)
	}
	if policy.UsesLocal() {
		s.Local = local(eps, node)
	}
	s.Reachable = union(eps, s.Cluster, s.Local)
	return s
}

// cluster returns the pool for policy Cluster.
func cluster(eps []*endpoints.Endpoint, node Node, c census, mode Mode) []*endpoints.Endpoint {
	switch {
	case c.ready == 0:
		return pick(eps, (*endpoints.Endpoint).Usable)
	case mode == ModeNode:
		return pick(eps, func(e *endpoints.Endpoint) bool { return e.Ready && hinted(e.Hints.Nodes(), node.Name) })
	case mode == ModeZone:
		return pick(eps, func(e *endpoints.Endpoint) bool { return e.Ready && hinted(e.Hints.Zones(), node.Zone) })
	default:
		return pick(eps, ready)
	}
}

// local returns the pool for policy Local. It prefers a terminating endpoint of
// this node to a ready one elsewhere: external load balancers keep sending for a
// while after a node's last pod began to terminate (KEP-1669).
func local(eps []*endpoints.Endpoint, node Node) []*endpoints.Endpoint {
	if l := pick(eps, func(e *endpoints.Endpoint) bool { return e.IsOn(node.Name) && e.Ready }); l != nil {
		return l
	}
	return pick(eps, func(e *endpoints.Endpoint) bool { return e.IsOn(node.Name) && e.Usable() })
}

func ready(e *endpoints.Endpoint) bool { return e.Ready }
