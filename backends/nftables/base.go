package nftables

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends/internal/sameaddr"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A layout is what the rules depend on besides the Services.
type layout struct {
	table           string
	mark            uint32
	affinityClients int
	podInterfaces   []string
	nodePorts       map[corev1.IPFamily]plan.NodePortAddresses
}

func newLayout(o Options, p *plan.Plan) *layout {
	cfg := p.Config()
	l := &layout{
		table: o.Name, mark: o.MasqueradeMark, affinityClients: o.AffinityClients,
		nodePorts: make(map[corev1.IPFamily]plan.NodePortAddresses),
	}
	for _, name := range cfg.PodInterfaces {
		if usableInterface(name) {
			l.podInterfaces = append(l.podInterfaces, name)
		}
	}
	for _, f := range families() {
		l.nodePorts[f.ip] = p.NodePortAddresses(f.ip)
	}
	return l
}

// sameRules reports whether the rules of Service ports under both layouts are equal.
func (l *layout) sameRules(o *layout) bool {
	return slices.Equal(l.podInterfaces, o.podInterfaces)
}

// base returns what the table of a family has for a plan besides its Services.
func (f *family) base(l *layout, p *plan.Plan) *program {
	chains := append([]chain{{name: f.marker(l)}}, f.fixedChains(l)...)
	return &program{chains: chains, boxes: boxes(), elements: f.configElements(p)}
}

// configElements returns the elements that come from the configuration.
func (f *family) configElements(p *plan.Plan) []element {
	cfg := p.Config()
	var out []element
	add := func(box string, prefixes []netip.Prefix) {
		for _, src := range prefixes {
			if f.has(src.Addr()) {
				out = append(out, element{id: elementID{box, key{src: src}}})
			}
		}
	}
	add(boxPodCIDRs, cfg.Node.PodCIDRs)
	add(boxServiceCIDRs, cfg.ServiceCIDRs)
	add(boxNodePortAddresses, f.nodePortPrefixes(p))
	return out
}

// nodePortPrefixes returns the addresses that serve NodePorts by name. Loopback is left out:
// what is translated there would need another source and a relaxed route.
func (f *family) nodePortPrefixes(p *plan.Plan) []netip.Prefix {
	a := p.NodePortAddresses(f.ip)
	var out []netip.Prefix
	for _, addr := range a.Addrs {
		out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
	}
	out = append(out, a.Prefixes...)
	return slices.DeleteFunc(out, func(p netip.Prefix) bool { return p.Addr().IsLoopback() })
}

// fixedChains returns the chains that every table has, in an order in which each
// comes after those it names.
func (f *family) fixedChains(l *layout) []chain {
	chains := []chain{
		{name: chainRefuse, rules: []string{ruleReject}},
		{name: chainNodePorts, rules: l.perNodePortAddress(f, dispatchPort(boxNodePorts))},
		{name: chainServices, rules: []string{f.dispatchAddress(boxServices), jump(chainNodePorts)}},
		{name: chainFirewallPorts, rules: l.perNodePortAddress(f, f.restrictPort())},
		{name: chainFirewall, rules: []string{f.restrictAddress(), jump(chainFirewallPorts)}},
		{name: chainNoEndpointPorts, rules: l.perNodePortAddress(f, dispatchPort(boxNoEndpointPorts))},
		{name: chainNoEndpoint, rules: []string{f.dispatchAddress(boxNoEndpointIPs)}},
		{name: chainHairpin, rules: append(sameaddr.NFT(f.ip), ruleMasquerade)},
		{name: chainClusterIPs, rules: []string{f.destinationIn(boxClusterIPs, ruleReject), f.destinationIn(boxServiceCIDRs, ruleDrop)}},
	}
	for _, in := range places() {
		// A packet that came with a priority could look as if it had a size.
		chains = append(chains, chain{name: in.pick(), rules: []string{forgetPriority, f.recallSize(in), dispatchSize(in)}})
	}
	return append(chains, f.baseChains(l)...)
}

func (f *family) baseChains(l *layout) []chain {
	filter := func(name string, at knftables.BaseChainHook, to ...string) chain {
		c := chain{name: name, hook: &hook{knftables.FilterType, at, priorityFilter}}
		for _, target := range to {
			c.rules = append(c.rules, newUntranslated(jump(target)))
		}
		return c
	}
	firewall := func(name string, at knftables.BaseChainHook, rule string) chain {
		return chain{name: name, hook: &hook{knftables.FilterType, at, priorityFirewall}, rules: []string{rule}}
	}
	dnat := func(name string, at knftables.BaseChainHook) chain {
		return chain{name: name, hook: &hook{knftables.NATType, at, priorityDNAT}, rules: []string{jump(chainServices)}}
	}
	return []chain{
		firewall("filter-prerouting-firewall", knftables.PreroutingHook, arriving(newFlow(jump(chainFirewall)))),
		firewall("filter-output-firewall", knftables.OutputHook, newFlow(jump(chainFirewall))),
		filter("filter-input", knftables.InputHook, chainNoEndpoint, chainNoEndpointPorts),
		filter("filter-forward", knftables.ForwardHook, chainNoEndpoint, chainClusterIPs),
		filter("filter-output", knftables.OutputHook, chainNoEndpoint, chainClusterIPs),
		dnat("nat-prerouting", knftables.PreroutingHook),
		dnat("nat-output", knftables.OutputHook),
		{
			name: "nat-postrouting", hook: &hook{knftables.NATType, knftables.PostroutingHook, prioritySNAT},
			rules: []string{l.masqueradeMarked(), translatedTo(chainHairpin)},
		},
	}
}

// perNodePortAddress returns rules that do what for the addresses on which NodePorts
// are served, and nothing for others.
func (l *layout) perNodePortAddress(f *family, what string) []string {
	rules := []string{f.destinationIn(boxNodePortAddresses, what)}
	if n := l.nodePorts[f.ip]; n.Any {
		rules = append(rules, f.localBut(n.Except, what))
	}
	return rules
}
