package nftables

import (
	"strconv"
	"strings"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A shared is the identity of a chain that any Service port may use: it says
// everything about the chain's rules.
type shared struct {
	kind  sharedKind
	place            // of a pick; a row and a denial have no pool
	proto protocol   // of a pick
	size  int        // of a pick: how many endpoints there are
	shape plan.Shape // of a row or a denial
}

type sharedKind int

const (
	pickChain sharedKind = iota // choose one of so many endpoints and translate
	rowChain                    // set the mark, choose a pool by origin
	denyChain                   // reject or drop by origin
)

// name returns the name of the chain, as in "pick-tcp-3", "nodeport-local-pick-tcp-2",
// "nodeport-row-CCC", "row-cCl", "deny-rrd".
func (s shared) name() string {
	switch s.kind {
	case pickChain:
		return s.pick() + "-" + string(s.proto) + "-" + strconv.Itoa(s.size)
	case rowChain:
		return s.prefixed("row") + "-" + s.shape.String()
	case denyChain:
	}
	return "deny-" + s.shape.String()
}

// parseShared is the reverse of name; ok is false for all other names.
func parseShared(name string) (s shared, ok bool) {
	rest, nodePort := strings.CutPrefix(name, "nodeport-")
	rest, local := strings.CutPrefix(rest, "local-")
	s.place = place{nodePort, local}
	words := strings.Split(rest, "-")
	switch {
	case len(words) == 2 && words[0] == "deny":
		s.kind = denyChain
		copy(s.shape[:], words[1])
	case len(words) == 2 && words[0] == "row":
		s.kind = rowChain
		copy(s.shape[:], words[1])
	case len(words) == 3 && words[0] == "pick":
		s.proto = protocol(words[1])
		s.size, _ = strconv.Atoi(words[2])
	default:
		return s, false
	}
	return s, s.valid() && s.name() == name
}

// valid reports whether a chain with this identity can do something.
func (s shared) valid() bool {
	return s.kind == denyChain || s.kind == rowChain && !s.local || s.size > 0 && s.proto.number() != 0
}

// entry returns the element that leads to the chain of a pick.
func (s shared) entry() element {
	id := elementID{s.picks(), key{proto: s.proto, n: uint32(s.size)}}
	return element{id: id, value: value{verdict: gotoChain(s.name())}}
}

// chain returns the chain itself.
func (s shared) chain(f *family, l *layout) chain {
	switch s.kind {
	case pickChain:
		rules := []string{forgetPriority, f.translateSlot(s, s.size)}
		if s.size == 1 {
			return chain{name: s.name(), rules: rules}
		}
		// A packet that read its size before a commit and its slot after it can miss
		// a slot that the commit removed. The first slot lives as long as the pool.
		return chain{name: s.name(), rules: append(rules, f.translateSlot(s, 1))}
	case rowChain:
		cluster, local := place{nodePort: s.nodePort}, place{s.nodePort, true}
		return chain{name: s.name(), rules: l.byOrigin(f, s.shape, func(letter byte) string {
			return l.forward(letter, cluster.pick(), local.pick())
		})}
	case denyChain:
	}
	return chain{name: s.name(), rules: l.byOrigin(f, s.shape, deny)}
}

// forward returns what a chain does for one letter, given the chains of the pools.
func (l *layout) forward(letter byte, cluster, local string) string {
	switch letter {
	case plan.LetterCluster:
		return gotoChain(cluster)
	case plan.LetterClusterMasq:
		return l.setMark() + " " + gotoChain(cluster)
	case plan.LetterLocal:
		return gotoChain(local)
	case plan.LetterLocalMasq:
		return l.setMark() + " " + gotoChain(local)
	default:
		return ruleReturn
	}
}

func deny(letter byte) string {
	switch letter {
	case plan.LetterReject:
		return gotoChain(chainRefuse)
	case plan.LetterDrop:
		return ruleDrop
	default:
		return ruleReturn
	}
}

// byOrigin returns rules that do for each origin what its letter says. The order
// pod, node, outside decides for a source that is several of them.
func (l *layout) byOrigin(f *family, s plan.Shape, what func(letter byte) string) []string {
	var rules []string
	pod, node, outside := s[plan.FromPod], s[plan.FromNode], s[plan.FromOutside]
	if pod != node || node != outside {
		for _, match := range l.podSources(f) {
			rules = append(rules, match+" "+what(pod))
		}
	}
	if node != outside {
		rules = append(rules, localOnly+" "+what(node))
	}
	return append(rules, what(outside))
}

func (l *layout) podSources(f *family) []string {
	matches := []string{f.sourceIn(boxPodCIDRs)}
	for _, name := range l.podInterfaces {
		matches = append(matches, inInterface(name))
	}
	return matches
}
