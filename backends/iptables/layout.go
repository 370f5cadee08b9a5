package iptables

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/internal/sameaddr"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A layout is what the rules of one family depend on besides the Services.
type layout struct {
	*family
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
		family: f, mark: o.MasqueradeMark, dropInvalid: o.DropInvalid,
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

// equal reports whether the same Services have the same rules in both layouts.
func (l *layout) equal(o *layout) bool {
	return l.ip == o.ip && l.mark == o.mark && l.dropInvalid == o.dropInvalid && l.guard == o.guard &&
		slices.Equal(l.podCIDRs, o.podCIDRs) && slices.Equal(l.podInterfaces, o.podInterfaces) &&
		slices.Equal(l.serviceCIDRs, o.serviceCIDRs) && l.nodePorts.Equal(o.nodePorts)
}

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
