package nftables

import (
	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends/internal/sameaddr"
)

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
