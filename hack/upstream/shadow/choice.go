package shadow

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/service"
	"github.com/vipkit/vipkit/topology"
)

// An Endpoint is what upstream knows of one. Text is its address and port.
type Endpoint struct {
	Text                               string
	Local, Ready, Serving, Terminating bool
	Zones, Nodes                       []string // hints, sorted
}

// elsewhere is the name of another node, for endpoints of which upstream only says
// that they are not local.
const elsewhere = "another-node"

func (e Endpoint) endpoint(node string) (endpoints.Endpoint, error) {
	addr, err := netip.ParseAddrPort(e.Text)
	if err != nil {
		return endpoints.Endpoint{}, err
	}
	out := endpoints.Endpoint{
		Addr: addr, Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating,
		Weight: 1, NodeName: elsewhere,
	}
	if e.Local {
		out.NodeName = node
	}
	if len(e.Zones)+len(e.Nodes) > 0 {
		out.Hints = &endpoints.Hints{ForZones: e.Zones, ForNodes: e.Nodes}
	}
	return out, nil
}

// A Question is what CategorizeEndpoints is asked.
type Question struct {
	Endpoints  []Endpoint
	Node, Zone string
	Policy     service.Policy

	// NoNodeHints says that upstream was told to ignore hints for nodes.
	NoNodeHints bool
}

// A Choice is its answer. The lists are texts of endpoints.
type Choice struct {
	Cluster, Local, Reachable []string
	Any                       bool
	UsesCluster, UsesLocal    bool
}

func (c Choice) sorted() Choice {
	for _, l := range []*[]string{&c.Cluster, &c.Local, &c.Reachable} {
		*l = slices.Sorted(slices.Values(*l))
	}
	return c
}

// CompareChoice asks topology the same and records how its answer compares to upstream's.
func CompareChoice(q Question, upstream Choice) {
	const area = "choice"
	if q.Node == "" {
		q.Node = "this-node" // upstream has local endpoints on a node without a name
	}
	eps, id := q.endpoints()
	if id != "" {
		Differ(area, id, "%v", q.Endpoints)
		return
	}
	s := topology.Select(eps, topology.Node{Name: q.Node, Zone: q.Zone}, q.Policy)
	ours := Choice{
		Cluster: texts(s.Cluster), Local: texts(s.Local), Reachable: texts(s.Reachable),
		Any: s.Any, UsesCluster: q.Policy.UsesCluster(), UsesLocal: q.Policy.UsesLocal(),
	}
	if a, b := fmt.Sprint(upstream.sorted()), fmt.Sprint(ours.sorted()); a != b {
		Differ(area, Unexplained, "upstream %s, vipkit %s, of %+v", a, b, q)
		return
	}
	Agree(area)
}

// endpoints returns an id besides if the question is none that vipkit can be asked.
func (q Question) endpoints() ([]*endpoints.Endpoint, string) {
	var out []*endpoints.Endpoint
	for _, e := range q.Endpoints {
		if q.NoNodeHints && len(e.Nodes) > 0 {
			return nil, "node-hints-off"
		}
		v, err := e.endpoint(q.Node)
		if err != nil {
			return nil, "no-address"
		}
		out = append(out, &v)
	}
	slices.SortFunc(out, endpoints.Compare)
	for i := range out[min(1, len(out)):] {
		if endpoints.Compare(out[i], out[i+1]) == 0 {
			return nil, "same-endpoint-twice"
		}
	}
	return out, ""
}

func texts(eps []*endpoints.Endpoint) []string {
	var out []string
	for _, e := range eps {
		out = append(out, e.String())
	}
	return out
}

// join joins texts that are sorted, for comparing and showing.
func join(l []string) string { return strings.Join(l, ", ") }
