package proxy

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	utilfeature "k8s.io/apiserver/pkg/util/feature"

	"k8s.io/kubernetes/pkg/features"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
	"github.com/vipkit/vipkit/proxy/service"
)

// CategorizeEndpoints asks upstream and vipkit.
func CategorizeEndpoints(endpoints []Endpoint, port ServicePort, node string, labels map[string]string) (cluster, local, reachable []Endpoint, hasAny bool) {
	cluster, local, reachable, hasAny = upstreamCategorizeEndpoints(endpoints, port, node, labels)
	shadow.CompareChoice(shadow.Question{
		Endpoints: vipkitEndpoints(endpoints),
		Node:      node,
		Zone:      labels[v1.LabelTopologyZone],
		Policy: service.Policy{
			InternalLocal: port.InternalPolicyLocal(),
			ExternalLocal: port.ExternalPolicyLocal(),
			External:      port.ExternallyAccessible(),
		},
		NoNodeHints: !utilfeature.DefaultFeatureGate.Enabled(features.PreferSameTrafficDistribution),
	}, shadow.Choice{
		Cluster: vipkitTexts(cluster), Local: vipkitTexts(local), Reachable: vipkitTexts(reachable), Any: hasAny,
		UsesCluster: port.UsesClusterEndpoints(), UsesLocal: port.UsesLocalEndpoints(),
	})
	return cluster, local, reachable, hasAny
}

func vipkitEndpoints(list []Endpoint) []shadow.Endpoint {
	var out []shadow.Endpoint
	for _, e := range list {
		out = append(out, shadow.Endpoint{
			Text: e.String(), Local: e.IsLocal(), Ready: e.IsReady(), Serving: e.IsServing(),
			Terminating: e.IsTerminating(), Zones: vipkitList(e.ZoneHints()), Nodes: vipkitList(e.NodeHints()),
		})
	}
	return out
}

// vipkitList returns nil for an empty set.
func vipkitList(s sets.Set[string]) []string {
	if len(s) == 0 {
		return nil
	}
	return sets.List(s)
}

func vipkitTexts(list []Endpoint) []string {
	var out []string
	for _, e := range list {
		out = append(out, e.String())
	}
	return out
}
