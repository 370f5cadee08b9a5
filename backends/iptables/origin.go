package iptables

import (
	"github.com/vipkit/vipkit/proxy/plan"
)

// byOrigin returns rules that do for each origin what its letter says. The order
// pod, node, outside decides for a source that is several of them.
func (l *layout) byOrigin(s plan.Shape, what func(letter byte) []string) []string {
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
