package topology_test

import (
	"testing"

	"github.com/vipkit/vipkit/topology"
)

func TestReason(t *testing.T) {
	noZone, noName := topology.Node{Name: "n1"}, topology.Node{Zone: "za"}
	tests := []struct {
		name, eps, policy string
		node              topology.Node
		want              string
	}{
		{"no hints", "a R, b T", "C/C/no", n1, ""},
		{"node mode", "a R n:n1, b R n:n2", "C/C/no", n1, ""},
		{"zone mode, node hints never given", "a R z:za, b R z:zb", "C/C/no", n1, ""},
		{"cluster pool not used", "a R z:za, b R", "L/C/no", n1, ""},
		{"one without zone hint", "a R z:za, b R", "C/C/no", n1, "ready endpoint 10.0.0.2:80 has no zone hint"},
		{"no hint for the zone", "a R z:zb", "C/C/no", n1, "no ready endpoint is hinted for zone za"},
		{"node without zone label", "a R z:zb", "C/C/no", noZone, "node n1 has no zone label"},
		{"hints of unready endpoints do not count", "a R, b N z:za", "C/C/no", n1, "ready endpoint 10.0.0.1:80 has no zone hint"},
		{"none is ready", "a T z:za", "C/C/no", n1, "hints count on ready endpoints only, and none is ready"},
		{"zone mode, one without node hint", "a R z:za n:n1, b R z:za", "C/C/no", n1, "ready endpoint 10.0.0.2:80 has no node hint"},
		{"zone mode, no hint for the node", "a R z:za n:n9", "C/C/no", n1, "no ready endpoint is hinted for node n1"},
		{"node without a name", "a R n:n1", "C/C/no", noName, "the node has no name"},
		{
			"neither", "a R z:zb n:n9", "C/C/no", n1,
			"no ready endpoint is hinted for node n1; no ready endpoint is hinted for zone za",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := topology.Select(parse(t, tt.eps), tt.node, policy(tt.policy))
			if got.Reason != tt.want {
				t.Errorf("Reason = %q, want %q", got.Reason, tt.want)
			}
		})
	}
}

func TestZoneComesAndGoes(t *testing.T) {
	const hintedEverywhere = "a R z:z1, b R z:z2, c R z:z2"
	tests := []struct {
		name, eps, zone, want string
		mode                  topology.Mode
	}{
		{"#37 no label", hintedEverywhere, "", "a b c", topology.ModeNone},
		{"#37 label added", hintedEverywhere, "z1", "a", topology.ModeZone},
		{"#37 label changed", hintedEverywhere, "z2", "b c", topology.ModeZone},
		{"#37 label names a zone without endpoints", hintedEverywhere, "z3", "a b c", topology.ModeNone},
		{"#37 label removed", hintedEverywhere, "", "a b c", topology.ModeNone},
		{"#37 one ready endpoint without a hint", "a R z:z1, b R z:z2, c R", "z1", "a b c", topology.ModeNone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := topology.Select(parse(t, tt.eps), topology.Node{Name: "n1", Zone: tt.zone}, policy("C/C/no"))
			check(t, got, row{tt.want, "-", tt.want, true, tt.mode})
		})
	}
}

func TestAnnotationsPlayNoPart(t *testing.T) {
	// Select is given nothing of the Service but its policies, so that only the
	// hints can decide.
	t.Run("A38 mode asked for, no hints", func(t *testing.T) {
		check(t, topology.Select(parse(t, "a R, b R"), n1, policy("C/C/no")), row{"a b", "-", "a b", true, topology.ModeNone})
	})
	t.Run("A39 no mode asked for, complete hints", func(t *testing.T) {
		check(t, topology.Select(parse(t, "a R z:za, b R z:zb"), n1, policy("C/C/no")), row{"a", "-", "a", true, topology.ModeZone})
	})
}

func TestTerminating(t *testing.T) {
	// A Service that publishes not-ready addresses reports its terminating pods
	// as ready.
	tests := []struct {
		name, eps, policy string
		want              row
	}{
		{"#22 ready beside terminating", "a R, b T, c X", "C/C/no", row{"a", "-", "a", true, topology.ModeNone}},
		{"#22 only terminating and serving", "a T, b T, c X", "C/C/no", row{"a b", "-", "a b", true, topology.ModeNone}},
		{"#22 only terminating, not serving", "a X, b X", "C/C/no", row{"-", "-", "-", false, topology.ModeNone}},
		{"#22 only unready", "a N, b N", "C/C/no", row{"-", "-", "-", false, topology.ModeNone}},
		{"#22 local terminating, remote ready", "a T loc, b R", "C/L/yes", row{"b", "a", "a b", true, topology.ModeNone}},
		{"#22 local ready and local terminating", "a T loc, b R loc", "C/L/yes", row{"b", "b", "b", true, topology.ModeNone}},
		{"#22 published terminating stays in use", "a P loc, b N", "C/C/no", row{"a", "-", "a", true, topology.ModeNone}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			check(t, topology.Select(parse(t, tt.eps), n1, policy(tt.policy)), tt.want)
		})
	}
}
