package nftables

import (
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"

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
