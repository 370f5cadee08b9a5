package plan_test

import (
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
)

func TestShapes(t *testing.T) {
	var (
		cluster     = plan.Action{Verdict: plan.Forward, Pool: plan.ClusterPool}
		clusterMasq = plan.Action{Verdict: plan.Forward, Pool: plan.ClusterPool, Masquerade: true}
		local       = plan.Action{Verdict: plan.Forward, Pool: plan.LocalPool}
		localMasq   = plan.Action{Verdict: plan.Forward, Pool: plan.LocalPool, Masquerade: true}
		reject      = plan.Action{Verdict: plan.Reject}
		drop        = plan.Action{Verdict: plan.Drop}
	)
	tests := []struct {
		actions             [plan.NumOrigins]plan.Action
		forwarding, denying string
	}{
		{[plan.NumOrigins]plan.Action{cluster, clusterMasq, local}, "cCl", "xxx"},
		{[plan.NumOrigins]plan.Action{localMasq, drop, reject}, "Lxx", "xdr"},
		{[plan.NumOrigins]plan.Action{}, "xxx", "xxx"},
		{[plan.NumOrigins]plan.Action{{Verdict: plan.Forward}, drop, drop}, "xxx", "xdd"},
	}
	for _, tt := range tests {
		if s := (&plan.Frontend{Actions: tt.actions}).Forwarding(); s.String() != tt.forwarding {
			t.Errorf("Forwarding(%v) = %s, want %s", tt.actions, s, tt.forwarding)
		}
		if s := (&plan.Frontend{Actions: tt.actions}).Denying(); s.String() != tt.denying {
			t.Errorf("Denying(%v) = %s, want %s", tt.actions, s, tt.denying)
		}
	}
}

func TestUniform(t *testing.T) {
	tests := []struct {
		shape              string
		strict, ignorePass byte // 0 for none
	}{
		{"ccc", 'c', 'c'},
		{"cCC", 0, 0},
		{"xdd", 0, 'd'},
		{"dxd", 0, 'd'},
		{"rxd", 0, 0},
		{"xxx", 'x', 'x'},
	}
	for _, tt := range tests {
		s := plan.Shape([]byte(tt.shape))
		if got, ok := s.Uniform(false); got != tt.strict || ok != (tt.strict != 0) {
			t.Errorf("%s: Uniform(false) = %c, %v", tt.shape, got, ok)
		}
		if got, ok := s.Uniform(true); got != tt.ignorePass || ok != (tt.ignorePass != 0) {
			t.Errorf("%s: Uniform(true) = %c, %v", tt.shape, got, ok)
		}
	}
}

func TestUses(t *testing.T) {
	for text, want := range map[string][2]bool{"ccl": {true, true}, "xCx": {true, false}, "xxL": {false, true}, "rdx": {false, false}} {
		s := plan.Shape([]byte(text))
		if s.UsesCluster() != want[0] || s.UsesLocal() != want[1] || s.Forwards() != (want[0] || want[1]) {
			t.Errorf("%s uses the cluster pool %v, the local one %v, forwards %v", text, s.UsesCluster(), s.UsesLocal(), s.Forwards())
		}
	}
}
