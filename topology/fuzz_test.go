package topology_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/service"
	"github.com/vipkit/vipkit/topology"
)

// FuzzSelect compares Select with a slow model that is written rule by rule.
func FuzzSelect(f *testing.F) {
	f.Add([]byte{0xff, 0x01, 0x07, 0x3a}, byte(0))
	f.Add([]byte{0x01, 0x00, 0x09, 0x11, 0x21, 0x3f, 0x16, 0x0e}, byte(5))
	f.Add([]byte{}, byte(7))
	f.Fuzz(func(t *testing.T, data []byte, bits byte) {
		eps := endpointsFrom(data)
		in := slices.Clone(eps)
		p := service.Policy{InternalLocal: bits&1 != 0, ExternalLocal: bits&2 != 0, External: bits&4 != 0}
		node := topology.Node{Name: "n1", Zone: "za"}
		if bits&8 != 0 {
			node.Zone = ""
		}
		got := topology.Select(eps, node, p)
		if !slices.Equal(eps, in) {
			t.Error("Select changed its input")
		}
		if diff := cmp.Diff(rowOf(model(eps, node, p)), rowOf(got)); diff != "" {
			t.Errorf("Select under %+v (-model +got):\n%s", p, diff)
		}
		if (got.Reason != "") && (!p.UsesCluster() || got.Mode == topology.ModeNode) {
			t.Errorf("Mode %q of %+v has reason %q", got.Mode, p, got.Reason)
		}
	})
}

// endpointsFrom makes up to 20 sorted endpoints, one from each byte: three bits
// for the conditions, one for the node, two each for the hints.
func endpointsFrom(data []byte) []*endpoints.Endpoint {
	zones := [][]string{nil, {"za"}, {"zb"}, {"za", "zb"}}
	nodes := [][]string{nil, {"n1"}, {"n2"}, {"n2", "n3"}}
	list := make([]endpoints.Endpoint, 0, 20)
	for i, b := range data[:min(len(data), 20)] {
		e := endpoints.Endpoint{
			Addr:  addrPort(i + 1),
			Ready: b&1 != 0, Serving: b&2 != 0, Terminating: b&4 != 0,
			NodeName: "n2", Hints: &endpoints.Hints{ForZones: zones[b>>4&3], ForNodes: nodes[b>>6]},
		}
		if b&8 != 0 {
			e.NodeName = "n1"
		}
		list = append(list, e)
	}
	return endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{{}: list}).Get(endpoints.Key{})
}

// model is what Select does, one rule after the other and without regard to cost.
func model(eps []*endpoints.Endpoint, node topology.Node, p service.Policy) topology.Selection {
	where := func(list []*endpoints.Endpoint, keep func(*endpoints.Endpoint) bool) []*endpoints.Endpoint {
		var out []*endpoints.Endpoint
		for _, e := range list {
			if keep(e) {
				out = append(out, e)
			}
		}
		return out
	}
	isReady := func(e *endpoints.Endpoint) bool { return e.Ready }
	isUsable := func(e *endpoints.Endpoint) bool { return e.Serving && e.Terminating }
	ready, usable := where(eps, isReady), where(eps, isUsable)

	var s topology.Selection
	s.Any = len(ready) > 0 || len(usable) > 0
	if !p.InternalLocal || p.External {
		s.Mode, s.Cluster = narrow(ready, node)
		if len(s.Cluster) == 0 {
			s.Cluster = usable
		}
	}
	if p.InternalLocal || p.ExternalLocal && p.External {
		here := func(e *endpoints.Endpoint) bool { return e.NodeName == node.Name }
		if s.Local = where(ready, here); len(s.Local) == 0 {
			s.Local = where(usable, here)
		}
	}
	s.Reachable = where(eps, func(e *endpoints.Endpoint) bool {
		return slices.Contains(s.Cluster, e) || slices.Contains(s.Local, e)
	})
	return s
}

// narrow applies the first mode that all of ready agree to.
func narrow(ready []*endpoints.Endpoint, node topology.Node) (topology.Mode, []*endpoints.Endpoint) {
	kinds := []struct {
		mode  topology.Mode
		hints func(*endpoints.Endpoint) []string
		self  string
	}{
		{topology.ModeNode, func(e *endpoints.Endpoint) []string { return e.Hints.Nodes() }, node.Name},
		{topology.ModeZone, func(e *endpoints.Endpoint) []string { return e.Hints.Zones() }, node.Zone},
	}
	for _, k := range kinds {
		var ours []*endpoints.Endpoint
		complete := true
		for _, e := range ready {
			complete = complete && len(k.hints(e)) > 0
			if slices.Contains(k.hints(e), k.self) {
				ours = append(ours, e)
			}
		}
		if complete && len(ours) > 0 {
			return k.mode, ours
		}
	}
	return topology.ModeNone, ready
}
