package nftables

import (
	"slices"
	"strconv"
	"strings"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A shape is what a row of the decision table does with a packet, one letter for
// each origin in the order pod, node, outside.
type shape [plan.NumOrigins]byte

// The letters of a shape. A chain for DNAT has the first five, a chain that denies the
// other two and letterPass.
const (
	letterCluster     = 'c' // to the cluster pool
	letterClusterMasq = 'C' // and masqueraded
	letterLocal       = 'l' // to the local pool
	letterLocalMasq   = 'L' // and masqueraded
	letterPass        = 'x' // not translated
	letterReject      = 'r'
	letterDrop        = 'd'
)

// forwarding returns the shape of a frontend's DNAT.
func forwarding(actions [plan.NumOrigins]plan.Action) (s shape) {
	for i, a := range actions {
		s[i] = letterPass
		if a.Verdict != plan.Forward {
			continue
		}
		switch {
		case a.Pool == plan.ClusterPool && a.Masquerade:
			s[i] = letterClusterMasq
		case a.Pool == plan.ClusterPool:
			s[i] = letterCluster
		case a.Pool == plan.LocalPool && a.Masquerade:
			s[i] = letterLocalMasq
		case a.Pool == plan.LocalPool:
			s[i] = letterLocal
		}
	}
	return s
}

// denying returns the shape of what becomes of packets that were not translated.
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

// has reports whether one of the origins has one of the letters.
func (s shape) has(letters ...byte) bool {
	return slices.ContainsFunc(s[:], func(l byte) bool { return slices.Contains(letters, l) })
}

func (s shape) usesCluster() bool { return s.has(letterCluster, letterClusterMasq) }
func (s shape) usesLocal() bool   { return s.has(letterLocal, letterLocalMasq) }
func (s shape) forwards() bool    { return s.usesCluster() || s.usesLocal() }

// uniform returns the letter that all origins have, ignoring letterPass where
// ignorePass is set; ok is false if there is none.
func (s shape) uniform(ignorePass bool) (letter byte, ok bool) {
	for _, l := range s {
		switch {
		case ignorePass && l == letterPass, l == letter:
		case letter == 0:
			letter = l
		default:
			return 0, false
		}
	}
	return letter, letter != 0
}

// A shared is the identity of a chain that any Service port may use: it says
// everything about the chain's rules.
type shared struct {
	kind           sharedKind
	proto          protocol
	nodePort       bool  // the slots are found without the address
	shape          shape // of a row or a denial
	cluster, local int   // sizes of the pools, 0 where unused
}

type sharedKind int

const (
	pickChain sharedKind = iota // choose an endpoint of one pool and translate
	rowChain                    // set the mark, choose a pick chain by origin
	denyChain                   // reject or drop by origin
)

// name returns the name of the chain, as in "pick-tcp-3", "pick-local-tcp-2",
// "nodeport-row-udp-CCC-3", "row-tcp-cCl-3-2", "deny-rrd".
func (s shared) name() string {
	if s.kind == denyChain {
		return "deny-" + string(s.shape[:])
	}
	name := "pick-"
	if s.kind == rowChain {
		name = "row-"
	} else if s.local > 0 {
		name += "local-"
	}
	name += string(s.proto)
	if s.nodePort {
		name = "nodeport-" + name
	}
	if s.kind == rowChain {
		name += "-" + string(s.shape[:])
	}
	for _, n := range []int{s.cluster, s.local} {
		if n > 0 {
			name += "-" + strconv.Itoa(n)
		}
	}
	return name
}

// parseShared is the reverse of name; ok is false for all other names.
func parseShared(name string) (s shared, ok bool) {
	rest, nodePort := strings.CutPrefix(name, "nodeport-")
	s.nodePort = nodePort
	words := strings.Split(rest, "-")
	next := func() (word string) {
		if len(words) > 0 {
			word, words = words[0], words[1:]
		}
		return word
	}
	switch next() {
	case "deny":
		s.kind = denyChain
	case "row":
		s.kind, s.proto = rowChain, protocol(next())
	case "pick":
		s.proto = protocol(next())
		if s.proto == "local" {
			s.proto = protocol(next())
			s.local, _ = strconv.Atoi(next())
		}
	default:
		return s, false
	}
	if s.kind != pickChain {
		copy(s.shape[:], next())
	}
	if s.kind == pickChain && s.local == 0 || s.shape.usesCluster() {
		s.cluster, _ = strconv.Atoi(next())
	}
	if s.shape.usesLocal() {
		s.local, _ = strconv.Atoi(next())
	}
	return s, s.valid() && s.name() == name
}

// valid reports whether a chain with this identity can do something.
func (s shared) valid() bool {
	return s.kind == denyChain || s.cluster+s.local > 0 && s.proto.number() != 0
}

// pick returns the chain that chooses from one pool only.
func (s shared) pick(pool plan.Pool) shared {
	s.kind, s.shape = pickChain, shape{}
	if pool == plan.LocalPool {
		s.cluster = 0
	} else {
		s.local = 0
	}
	return s
}

// needs returns the chains that s names, which must exist before it.
func (s shared) needs() []shared {
	if s.kind != rowChain {
		return nil
	}
	var picks []shared
	if s.cluster > 0 {
		picks = append(picks, s.pick(plan.ClusterPool))
	}
	if s.local > 0 {
		picks = append(picks, s.pick(plan.LocalPool))
	}
	return picks
}

// chain returns the chain itself.
func (s shared) chain(f *family, l *layout) chain {
	switch s.kind {
	case pickChain:
		n, offset := s.cluster, 0
		if s.local > 0 {
			n, offset = s.local, localSlots
		}
		rules := []string{f.translateSlot(s, n, offset)}
		if n == 1 {
			return chain{name: s.name(), rules: rules}
		}
		// A packet that read its verdict before a commit and its slot after it can miss
		// a slot that the commit removed. Slot 0 lives as long as the pool.
		return chain{name: s.name(), rules: append(rules, f.translateSlot(s, 1, offset))}
	case rowChain:
		return chain{name: s.name(), rules: l.byOrigin(f, s.shape, func(letter byte) string {
			return l.forward(letter, s.pick(plan.ClusterPool).name(), s.pick(plan.LocalPool).name())
		})}
	case denyChain:
	}
	return chain{name: s.name(), rules: l.byOrigin(f, s.shape, deny)}
}

// forward returns what a chain does for one letter, given the chains of the pools.
func (l *layout) forward(letter byte, cluster, local string) string {
	switch letter {
	case letterCluster:
		return gotoChain(cluster)
	case letterClusterMasq:
		return l.setMark() + " " + gotoChain(cluster)
	case letterLocal:
		return gotoChain(local)
	case letterLocalMasq:
		return l.setMark() + " " + gotoChain(local)
	default:
		return ruleReturn
	}
}

func deny(letter byte) string {
	switch letter {
	case letterReject:
		return gotoChain(chainRefuse)
	case letterDrop:
		return ruleDrop
	default:
		return ruleReturn
	}
}

// byOrigin returns rules that do for each origin what its letter says. The order
// pod, node, outside decides for a source that is several of them.
func (l *layout) byOrigin(f *family, s shape, what func(letter byte) string) []string {
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
