package topology_test

import (
	"slices"
	"testing"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/topology"
)

func TestSelect(t *testing.T) {
	tests := []struct {
		name, eps, policy string
		want              row
	}{
		{"D01 no endpoints", "", "C/C/no", row{"-", "-", "-", false, topology.ModeNone}},
		{"D02 all ready", "a R, b R loc", "C/C/no", row{"a b", "-", "a b", true, topology.ModeNone}},
		{"D03 not ready left out", "a R, b N loc", "C/C/no", row{"a", "-", "a", true, topology.ModeNone}},
		{"D04 none ready rejects", "a N, b N loc", "C/C/yes", row{"-", "-", "-", false, topology.ModeNone}},
		{"D05 terminating stands in when none is ready", "a T, b X loc", "C/C/no", row{"a", "-", "a", true, topology.ModeNone}},
		{"D06 terminating not beside ready", "a R, b T loc", "C/C/no", row{"a", "-", "a", true, topology.ModeNone}},
		{"D07 terminating but not serving is unusable", "a X, b X loc", "C/L/yes", row{"-", "-", "-", false, topology.ModeNone}},
		{"D08 internal Local takes the local one", "a R, b R loc", "L/C/no", row{"-", "b", "b", true, topology.ModeNone}},
		{"D09 internal Local without local drops", "a R, b R", "L/C/no", row{"-", "-", "-", true, topology.ModeNone}},
		{"D10 internal Local prefers local terminating", "a R, b T loc", "L/C/no", row{"-", "b", "b", true, topology.ModeNone}},
		{"D11 internal Local with none usable rejects", "a N, b N loc", "L/C/no", row{"-", "-", "-", false, topology.ModeNone}},
		{"D12 external Local with local", "a R, b R loc", "C/L/yes", row{"a b", "b", "a b", true, topology.ModeNone}},
		{"D13 external Local without local", "a R, b R", "C/L/yes", row{"a b", "-", "a b", true, topology.ModeNone}},
		{"D14 external Local prefers local terminating", "a R, b T loc", "C/L/yes", row{"a", "b", "a b", true, topology.ModeNone}},
		{"D15 only terminating", "a T, b T loc", "C/L/yes", row{"a b", "b", "a b", true, topology.ModeNone}},
		{"D16 external Local that nobody can reach", "a R, b R", "C/L/no", row{"a b", "-", "a b", true, topology.ModeNone}},
		{"D17 both Local", "a R, b R loc", "L/L/yes", row{"a b", "b", "a b", true, topology.ModeNone}},
		{"D18 both Local without local", "a R, b R", "L/L/yes", row{"a b", "-", "a b", true, topology.ModeNone}},
		{"D19 both Local, not accessible", "a R, b R loc", "L/L/no", row{"-", "b", "b", true, topology.ModeNone}},
		{"D20 internal Local, external Cluster", "a R, b R loc", "L/C/yes", row{"a b", "b", "a b", true, topology.ModeNone}},
		{"D21 internal Local, external Cluster, none local", "a R, b R", "L/C/yes", row{"a b", "-", "a b", true, topology.ModeNone}},
		{"D22 zone hints", "a R z:za, b R z:zb", "C/C/no", row{"a", "-", "a", true, topology.ModeZone}},
		{"D23 one ready endpoint without hint", "a R z:za, b R", "C/C/no", row{"a b", "-", "a b", true, topology.ModeNone}},
		{"D24 no hint for the zone", "a R z:zb, b R z:zc", "C/C/no", row{"a b", "-", "a b", true, topology.ModeNone}},
		{"D26 hint for the zone on an unready endpoint", "a N z:za, b R z:zb", "C/C/no", row{"b", "-", "b", true, topology.ModeNone}},
		{"D27 unready endpoint without hint", "a R z:za, b N", "C/C/no", row{"a", "-", "a", true, topology.ModeZone}},
		{"D28 node hints", "a R loc z:za n:n1, b R z:za n:n2, c R z:zb n:n3", "C/C/no", row{"a", "-", "a", true, topology.ModeNode}},
		{"D29 node to zone", "a R z:za n:n9, b R z:za n:n2, c R z:zb n:n3", "C/C/no", row{"a b", "-", "a b", true, topology.ModeZone}},
		{"D30 neither node nor zone", "a R z:zb n:n9, c R z:zb n:n3", "C/C/no", row{"a c", "-", "a c", true, topology.ModeNone}},
		{"D31 incomplete node hints", "a R loc z:za n:n1, b R z:za, c R z:zb n:n3", "C/C/no", row{"a b", "-", "a b", true, topology.ModeZone}},
		{"D32 node hint on an unready endpoint", "a N loc z:za n:n1, b R z:za n:n2, c R z:zb n:n3", "C/C/no", row{"b", "-", "b", true, topology.ModeZone}},
		{"D33 fallback ignores hints", "a T loc z:za n:n1, b T z:zb n:n2", "C/C/no", row{"a b", "-", "a b", true, topology.ModeNone}},
		{"D34 zone for Cluster only", "a R loc z:zb, b R z:za", "C/L/yes", row{"b", "a", "a b", true, topology.ModeZone}},
		{"D35 zone and local terminating", "a T loc z:za, b R z:za, c R z:zb", "C/L/yes", row{"b", "a", "a b", true, topology.ModeZone}},
		{"D36 internal Local ignores hints", "a R loc z:zb, b R z:za", "L/C/no", row{"-", "a", "a", true, topology.ModeNone}},
		{"D37 terminating and ready counts as ready", "a P loc, b R", "C/L/yes", row{"a b", "a", "a b", true, topology.ModeNone}},
		{"D38 ready though not serving", "a PX loc, b T loc", "C/L/yes", row{"a", "a", "a", true, topology.ModeNone}},
		{"D39 serving only is not usable", "a S loc", "C/C/no", row{"-", "-", "-", false, topology.ModeNone}},
		{"D40 several zones in a hint", "a R z:za+zb, b R z:zb", "C/C/no", row{"a", "-", "a", true, topology.ModeZone}},
		{"D42 internal Local, only terminating", "a T loc, b T", "L/C/no", row{"-", "a", "a", true, topology.ModeNone}},
		{"D43 local unready, remote terminating", "a N loc, b T", "C/L/yes", row{"b", "-", "b", true, topology.ModeNone}},
		{
			"#38 fault F35 hints hold whatever the spread over zones, and unready endpoints without them do not count",
			"a R z:za, b R z:za, c R z:zb, d R z:zb, e R z:zc, f N, g N", "C/C/no",
			row{"a b", "-", "a b", true, topology.ModeZone},
		},
		{"D44 node mode does not need zone hints", "a R loc n:n1, b R z:za n:n1", "C/C/no", row{"a b", "-", "a b", true, topology.ModeNode}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, topology.Select(parse(t, tt.eps), n1, policy(tt.policy)), tt.want)
		})
	}
}

func TestSelectNode(t *testing.T) {
	noZone := topology.Node{Name: "n1"}
	tests := []struct {
		name, eps string
		node      topology.Node
		want      row
	}{
		{"D25 node without zone label", "a R z:za, b R z:zb", noZone, row{"a b", "-", "a b", true, topology.ModeNone}},
		{"D41 node hints need no zone label", "a R loc n:n1, b R n:n2", noZone, row{"a", "-", "a", true, topology.ModeNode}},
		{"an empty hint names nobody", "a R z: n:, b R z:zb n:n2", topology.Node{}, row{"a b", "-", "a b", true, topology.ModeNone}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, topology.Select(parse(t, tt.eps), tt.node, policy("C/C/no")), tt.want)
		})
	}
	t.Run("a node without a name has no local endpoints", func(t *testing.T) {
		eps := parse(t, "a R, b R")
		eps[0].NodeName = ""
		check(t, topology.Select(eps, topology.Node{Zone: "za"}, policy("C/L/yes")),
			row{"a b", "-", "a b", true, topology.ModeNone})
	})
}

func TestSelectWithoutNodeHints(t *testing.T) {
	// There is no switch for node hints as in 1.34: whoever wants none hides
	// them when the slices come in.
	t.Run("D45 endpoints without their node hints", func(t *testing.T) {
		eps := parse(t, "a R loc z:za n:n1, b R z:za n:n2, c R z:zb n:n3")
		for _, e := range eps {
			e.Hints = &endpoints.Hints{ForZones: e.Hints.Zones()}
		}
		check(t, topology.Select(eps, n1, policy("C/C/no")), row{"a b", "-", "a b", true, topology.ModeZone})
	})
}

func TestSelectSorted(t *testing.T) {
	// The local endpoint lies between those of the cluster list, so that a union
	// by appending would not be sorted. Text decides: 10.0.0.10:80 (j) is first.
	t.Run("D46 the union is sorted", func(t *testing.T) {
		got := topology.Select(parse(t, "a R, b T loc, c R, j R"), n1, policy("C/L/yes"))
		check(t, got, row{"j a c", "b", "j a b c", true, topology.ModeNone})
		if !slices.IsSortedFunc(got.Reachable, endpoints.Compare) {
			t.Errorf("Reachable = %v, not sorted", got.Reachable)
		}
	})
}

// TestSelectUnion mixes both lists, so that neither is the union.
func TestSelectUnion(t *testing.T) {
	t.Run("several of each, in turn", func(t *testing.T) {
		got := topology.Select(parse(t, "a T loc, b R, c T loc, d R, e X loc, f T loc"), n1, policy("C/L/yes"))
		check(t, got, row{"b d", "a c f", "a b c d f", true, topology.ModeNone})
	})
}

// TestSelectNil leaves out what is not there, and leaves the list as it is.
func TestSelectNil(t *testing.T) {
	eps := parse(t, "a R loc, b R")
	withNil := []*endpoints.Endpoint{nil, eps[0], nil, eps[1], nil}
	input := slices.Clone(withNil)
	check(t, topology.Select(input, n1, policy("C/L/yes")), row{"a b", "a", "a b", true, topology.ModeNone})
	if !slices.Equal(input, withNil) {
		t.Error("Select changed the list")
	}
}
