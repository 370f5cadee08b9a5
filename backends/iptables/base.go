package iptables

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/internal/sameaddr"
	"github.com/vipkit/vipkit/internal/ip"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A layout is what the rules of one family depend on besides the Services.
type layout struct {
	*family
	plan        *plan.Plan // that it was made for
	mark        uint32
	dropInvalid bool
	guard       bool // loopback is to be protected, since we set route_localnet

	podCIDRs      []netip.Prefix
	podInterfaces []string
	serviceCIDRs  []netip.Prefix
	nodePorts     plan.NodePortAddresses
}

// newLayout returns the layout of a family for a plan. Loopback NodePorts are those that
// can be served: only with IPv4, and only if asked for.
func newLayout(f *family, o Options, p *plan.Plan) *layout {
	cfg := p.Config()
	l := &layout{
		family: f, plan: p, mark: o.MasqueradeMark,
		podCIDRs: f.own(cfg.Node.PodCIDRs), podInterfaces: usableInterfaces(cfg.PodInterfaces), serviceCIDRs: f.own(cfg.ServiceCIDRs),
		nodePorts: p.NodePortAddresses(f.ip),
	}
	if !o.LocalhostNodePorts || f.ip != corev1.IPv4Protocol {
		l.nodePorts.Prefixes = nil
		l.nodePorts.Addrs = slices.DeleteFunc(slices.Clone(l.nodePorts.Addrs), netip.Addr.IsLoopback)
	}
	return l
}

// usableInterfaces leaves out what no interface can be called: at most 15 bytes, and
// nothing that iptables-restore takes for more than a letter.
func usableInterfaces(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		plain := strings.TrimSuffix(name, "*")
		return plain == "" || len(plain) > 15 || comment(plain) != plain || strings.ContainsAny(plain, " !+*/") || plain[0] == '-'
	})
}

// own returns the prefixes of the family.
func (f *family) own(prefixes []netip.Prefix) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(prefixes), func(p netip.Prefix) bool { return !f.has(p.Addr()) })
}

// servesLoopback reports whether NodePorts are served on loopback addresses.
func (l *layout) servesLoopback() bool { return len(l.nodePorts.Prefixes) > 0 }

// fixedChains returns the chains that a table always has, those of dispatches aside.
func (l *layout) fixedChains(t table) []*chain {
	if t == nat {
		return []*chain{
			{name: chainCanary},
			{name: chainServices, about: "frontends", rules: append([]string{call(chainIPs)}, l.perNodePortAddress(call(chainPorts))...)},
			{name: chainPostrouting, about: "masquerading", rules: []string{
				words(translated, call(chainHairpin)), words(l.unmarked(), doReturn), l.clearMark(), doMasquerade,
			}},
			{name: chainHairpin, about: "pods that reach themselves", rules: l.hairpinRules()},
		}
	}
	chains := []*chain{
		{name: chainCanary},
		{name: chainInput, about: "what ends here", rules: l.inputRules()},
		{name: chainForward, about: "what passes through", rules: l.forwardRules()},
		{name: chainOutput, about: "what begins here", rules: []string{
			words(newFlow, call(chainDeny)), words(newFlow, call(chainCluster)),
		}},
		{name: chainDeny, about: "frontends that deny", rules: append(
			[]string{words(translated, doReturn), call(chainDenyIPs)}, l.perNodePortAddress(call(chainDenyPorts))...)},
		{name: chainCluster, about: "unused Service addresses and ports", rules: l.clusterRules()},
	}
	if l.guard {
		chains = append(chains, &chain{name: chainLocalnet, about: "loopback is not for other hosts", rules: []string{
			words(strangerToLoopback, doDrop),
		}})
	}
	return chains
}

// hairpinRules masquerade what goes back to its sender. An endpoint answers its own address
// directly, so that only masquerading brings the answer back through the node.
func (l *layout) hairpinRules() []string {
	var rules []string
	for _, m := range sameaddr.Masks(l.ip) {
		bit := bitText(m)
		rules = append(rules, words("-s", bit, "! -d", bit, doReturn), words("! -s", bit, "-d", bit, doReturn))
	}
	return append(rules, doMasquerade)
}

// bitText is an address with one bit set and the mask for it, as iptables-save writes them.
func bitText(m netip.Addr) string {
	if p := netip.PrefixFrom(m, 1); p.Masked() == p {
		return p.String()
	}
	return m.String() + "/" + m.String()
}

func (l *layout) inputRules() []string {
	var rules []string
	if l.guard {
		rules = append(rules, call(chainLocalnet))
	}
	return append(rules, words(protocolTCP.only(), call(chainHealth)), words(newFlow, call(chainDeny)))
}

// forwardRules end with what kube-proxy allows as well: on a node whose FORWARD chain
// drops by default, what is masqueraded and all answers still pass.
func (l *layout) forwardRules() []string {
	var rules []string
	if l.dropInvalid {
		rules = append(rules, words(invalidState, doDrop))
	}
	return append(rules,
		words(newFlow, call(chainDeny)), words(newFlow, call(chainCluster)),
		words(l.marked(), doAccept), words(knownFlow, doAccept))
}

func (l *layout) clusterRules() []string {
	rules := []string{words(translated, doReturn), call(chainClusterIPs)}
	for _, p := range l.serviceCIDRs {
		rules = append(rules, words(destination(p), doDrop))
	}
	return rules
}

// perNodePortAddress returns rules that do what for the addresses on which NodePorts are
// served, and nothing for others. They must be the last of their chain.
func (l *layout) perNodePortAddress(what string) []string {
	var rules []string
	for _, a := range l.nodePorts.Addrs {
		rules = append(rules, words(destination(host(a)), what))
	}
	for _, p := range l.nodePorts.Prefixes {
		rules = append(rules, words(destination(p), toNode, what))
	}
	if !l.nodePorts.Any {
		return rules
	}
	for _, p := range l.nodePorts.Except {
		rules = append(rules, words(destination(p), doReturn))
	}
	return append(rules, words(toNode, what))
}

// A protocol is the number of a transport protocol.
type protocol uint8

const (
	protocolTCP  protocol = 6
	protocolUDP  protocol = 17
	protocolSCTP protocol = 132
)

func protocolOf(p corev1.Protocol) protocol {
	switch p {
	case corev1.ProtocolUDP:
		return protocolUDP
	case corev1.ProtocolSCTP:
		return protocolSCTP
	case corev1.ProtocolTCP:
	}
	return protocolTCP
}

// String returns the name that iptables uses.
func (p protocol) String() string {
	switch p {
	case protocolUDP:
		return "udp"
	case protocolSCTP:
		return "sctp"
	case protocolTCP:
	}
	return "tcp"
}

// protocolNamed is the reverse of String.
func protocolNamed(name string) (protocol, bool) {
	for _, p := range []protocol{protocolTCP, protocolUDP, protocolSCTP} {
		if p.String() == name {
			return p, true
		}
	}
	return 0, false
}

// A family is IPv4 or IPv6, and what differs between them.
type family struct {
	ip       corev1.IPFamily
	command  string // begins the names of the programs
	bits     int    // of an address
	loopback netip.Prefix
}

func families() []*family {
	return []*family{
		{ip: corev1.IPv4Protocol, command: "iptables", bits: 32, loopback: netip.MustParsePrefix("127.0.0.0/8")},
		{ip: corev1.IPv6Protocol, command: "ip6tables", bits: 128, loopback: netip.MustParsePrefix("::1/128")},
	}
}

// has reports whether a belongs to the family.
func (f *family) has(a netip.Addr) bool {
	return ip.Family(a) == f.ip
}

// A table is one of the two tables that have our chains.
type table int

const (
	nat table = iota
	filter
	numTables = 2
)

// String returns the name that iptables uses.
func (t table) String() string {
	if t == nat {
		return "nat"
	}
	return "filter"
}

// A hookJump is a jump from a built-in chain to one of ours, the only rules of ours outside
// our own chains.
type hookJump struct {
	base, to string
}

func hookJumps(t table) []hookJump {
	if t == nat {
		return []hookJump{{"PREROUTING", chainServices}, {"OUTPUT", chainServices}, {"POSTROUTING", chainPostrouting}}
	}
	return []hookJump{{"INPUT", chainInput}, {"FORWARD", chainForward}, {"OUTPUT", chainOutput}}
}

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
