package topology

import (
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/service"
)

// A Node is the place from which endpoints are looked at.
type Node struct {
	Name string // "" makes no endpoint local
	Zone string // label topology.kubernetes.io/zone, "" if none
}

// A Mode says by which hint the cluster pool was narrowed.
type Mode string

// The modes.
const (
	ModeNone Mode = ""     // all ready endpoints
	ModeNode Mode = "node" // those hinted for this node (KEP-3015, PreferSameNode)
	ModeZone Mode = "zone" // those hinted for this node's zone (KEP-2433, KEP-4444)
)

// A Selection is which endpoints of a Service port this node uses. Its lists
// are sorted by [endpoints.Compare]; "not used" and "empty" are both nil, the
// Policy tells which.
type Selection struct {
	// Cluster is the pool for policy Cluster, Local the one for policy Local.
	Cluster, Local []*endpoints.Endpoint

	// Reachable is the union of both.
	Reachable []*endpoints.Endpoint

	// Any is false if no endpoint can be used from anywhere: clients are rejected.
	Any bool

	// Mode is how Cluster was narrowed, Reason why no narrower mode applied, in
	// words; "" where nothing was to be explained.
	Mode   Mode
	Reason string
}

// Select chooses the endpoints that node uses under policy. eps must be sorted
// by [endpoints.Compare]. Select is pure.
func Select(eps []*endpoints.Endpoint, node Node, policy service.Policy) Selection {
	panic("not yet")
}
