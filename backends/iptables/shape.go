package iptables

import "github.com/vipkit/vipkit/proxy/plan"

// A shape is what a row of the decision table does with a packet, one letter for
// each origin in the order pod, node, outside.
type shape [plan.NumOrigins]byte

// The letters of a shape. What table nat does has the first five, what table filter
// does letterPass and the last two.
const (
	letterToCluster     = 'c'
	letterToClusterMasq = 'C' // and masqueraded
	letterToLocal       = 'l'
	letterToLocalMasq   = 'L' // and masqueraded
	letterPass          = 'x' // left to the other table
	letterReject        = 'r'
	letterDrop          = 'd'
)

// forwarding returns the part of a row that table nat does.
func forwarding(actions [plan.NumOrigins]plan.Action) (s shape) {
	for i, a := range actions {
		switch {
		case a.Verdict != plan.Forward || a.Pool == plan.NoPool:
			s[i] = letterPass
		case a.Pool == plan.LocalPool && a.Masquerade:
			s[i] = letterToLocalMasq
		case a.Pool == plan.LocalPool:
			s[i] = letterToLocal
		case a.Masquerade:
			s[i] = letterToClusterMasq
		default:
			s[i] = letterToCluster
		}
	}
	return s
}

// denying returns the part of a row that table filter does.
func denying(actions [plan.NumOrigins]plan.Action) (s shape) {
	for i, a := range actions {
		switch a.Verdict {
		case plan.Reject:
			s[i] = letterReject
		case plan.Drop:
			s[i] = letterDrop
		case plan.Pass, plan.Forward:
			s[i] = letterPass
		}
	}
	return s
}

func (s shape) forwards() bool { return s != shape{letterPass, letterPass, letterPass} }

// uniform returns the letter that all origins have, ignoring letterPass beside another if
// ignorePass is true; ok is false if there is none.
func (s shape) uniform(ignorePass bool) (letter byte, ok bool) {
	letter = letterPass
	for _, l := range s {
		if l != letterPass {
			letter = l
		}
	}
	for _, l := range s {
		if l != letter && (!ignorePass || l != letterPass) {
			return 0, false
		}
	}
	return letter, true
}

// byOrigin returns rules that do for each origin what its letter says. The order
// pod, node, outside decides for a source that is several of them.
func (l *layout) byOrigin(s shape, what func(letter byte) []string) []string {
	var rules []string
	add := func(match string, letter byte) {
		for _, do := range what(letter) {
			rules = append(rules, words(match, do))
		}
	}
	pod, node, outside := s[plan.FromPod], s[plan.FromNode], s[plan.FromOutside]
	if pod != node || node != outside {
		for _, match := range l.podSources() {
			add(match, pod)
		}
	}
	if node != outside {
		add(fromNode, node)
	}
	add("", outside)
	return rules
}

func (l *layout) podSources() []string {
	var matches []string
	for _, p := range l.podCIDRs {
		matches = append(matches, source(p))
	}
	for _, name := range l.podInterfaces {
		matches = append(matches, inInterface(name))
	}
	return matches
}
