package iptables

import "fmt"

const (
	routeLocalnet = "net/ipv4/conf/all/route_localnet"
	beLiberal     = "net/netfilter/nf_conntrack_tcp_be_liberal"
)

// settleSysctls completes a layout with what depends on the node's sysctls, and closes
// loopback again if it is no longer served. That route_localnet was set by us, by whatever
// instance, is told by the chain that guards loopback.
func (b *Backend) settleSysctls(f *familyState, next *layout) error {
	if next.dropInvalid {
		// It exists once connection tracking is loaded; until then the default holds.
		value, err := b.kernel.sysctl(beLiberal)
		next.dropInvalid = err != nil || value == "0"
	}
	_, ours := f.have[filter].chains[chainLocalnet]
	if !next.servesLoopback() {
		if ours {
			return b.closeLoopback()
		}
		return nil
	}
	value, err := b.kernel.sysctl(routeLocalnet)
	if err != nil {
		return fmt.Errorf("read route_localnet: %w", err)
	}
	next.guard = ours || value == "0"
	return nil
}

// openLoopback comes after the rules that guard it.
func (b *Backend) openLoopback(l *layout) error {
	if !l.guard {
		return nil
	}
	if err := b.kernel.setSysctl(routeLocalnet, "1"); err != nil {
		return fmt.Errorf("set route_localnet: %w", err)
	}
	return nil
}

// closeLoopback comes before the rules that guard it go.
func (b *Backend) closeLoopback() error {
	if err := b.kernel.setSysctl(routeLocalnet, "0"); err != nil {
		return fmt.Errorf("reset route_localnet: %w", err)
	}
	return nil
}
