package topology_test

import (
	"fmt"
	"net/netip"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/service"
	"github.com/vipkit/vipkit/topology"
)

// Three endpoints in two zones, one of them not ready, seen from a node in
// zone-a.
func ExampleSelect() {
	endpoint := func(addr, node, zone string, ready bool) endpoints.Endpoint {
		return endpoints.Endpoint{
			Addr: netip.MustParseAddrPort(addr), NodeName: node, Hints: &endpoints.Hints{ForZones: []string{zone}},
			Ready: ready, Serving: ready,
		}
	}
	key := endpoints.Key{Port: "http", Protocol: "TCP", Family: "IPv4"}
	set := endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{key: {
		endpoint("10.0.1.5:8080", "node-1", "zone-a", true),
		endpoint("10.0.1.6:8080", "node-1", "zone-a", false),
		endpoint("10.0.2.5:8080", "node-2", "zone-b", true),
	}})
	policy := service.Policy{External: true, ExternalLocal: true}

	for _, node := range []topology.Node{
		{Name: "node-1", Zone: "zone-a"},
		{Name: "node-2", Zone: "zone-b"},
		{Name: "node-3"},
	} {
		s := topology.Select(set.Get(key), node, policy)
		fmt.Printf("%s: cluster %v local %v mode=%s reason=%q\n", node.Name, s.Cluster, s.Local, s.Mode, s.Reason)
	}
	// Output:
	// node-1: cluster [10.0.1.5:8080] local [10.0.1.5:8080] mode=zone reason=""
	// node-2: cluster [10.0.2.5:8080] local [10.0.2.5:8080] mode=zone reason=""
	// node-3: cluster [10.0.1.5:8080 10.0.2.5:8080] local [] mode= reason="node node-3 has no zone label"
}
