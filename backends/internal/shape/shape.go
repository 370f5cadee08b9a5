// Package shape writes a row of the decision table in letters. Service ports whose rows have
// one shape can share what a data plane makes for it, under a name with these letters.
package shape

import (
	"slices"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A Shape is what a row of the decision table does with a packet, one letter for each
// origin in the order pod, node, outside.
type Shape [plan.NumOrigins]byte

// The letters of a Shape. What translates packets has the first five, what denies them the
// other two and Pass.
const (
	Cluster     = 'c' // to the cluster pool
	ClusterMasq = 'C' // and masqueraded
	Local       = 'l' // to the local pool
	LocalMasq   = 'L' // and masqueraded
	Pass        = 'x' // left alone here
	Reject      = 'r'
	Drop        = 'd'
)

// Forwarding returns the part of a row that translates packets.
func Forwarding(actions [plan.NumOrigins]plan.Action) (s Shape) {
	for i, a := range actions {
		switch {
		case a.Verdict != plan.Forward || a.Pool == plan.NoPool:
			s[i] = Pass
		case a.Pool == plan.LocalPool && a.Masquerade:
			s[i] = LocalMasq
		case a.Pool == plan.LocalPool:
			s[i] = Local
		case a.Masquerade:
			s[i] = ClusterMasq
		default:
			s[i] = Cluster
		}
	}
	return s
}

// Denying returns what becomes of packets that were not translated.
func Denying(actions [plan.NumOrigins]plan.Action) (s Shape) {
	for i, a := range actions {
		switch a.Verdict {
		case plan.Reject:
			s[i] = Reject
		case plan.Drop:
			s[i] = Drop
		case plan.Pass, plan.Forward:
			s[i] = Pass
		}
	}
	return s
}

// Has reports whether one of the origins has one of the letters.
func (s Shape) Has(letters ...byte) bool {
	return slices.ContainsFunc(s[:], func(l byte) bool { return slices.Contains(letters, l) })
}

// UsesCluster reports whether packets go to the cluster pool.
func (s Shape) UsesCluster() bool { return s.Has(Cluster, ClusterMasq) }

// UsesLocal reports whether packets go to the local pool.
func (s Shape) UsesLocal() bool { return s.Has(Local, LocalMasq) }

// Forwards reports whether packets go to any pool.
func (s Shape) Forwards() bool { return s.UsesCluster() || s.UsesLocal() }

// Uniform returns the letter that all origins have; ok is false if there is none. With ignorePass,
// an origin that passes agrees with every letter.
func (s Shape) Uniform(ignorePass bool) (letter byte, ok bool) {
	letter = Pass
	for _, l := range s {
		if l != Pass {
			letter = l
		}
	}
	for _, l := range s {
		if l != letter && (!ignorePass || l != Pass) {
			return 0, false
		}
	}
	return letter, true
}
