package conntrack

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
)

// doubts are the UDP frontends of one family that somebody tried to put in place in a round that failed. Packets may have
// followed them, even if no later plan has them.
type doubts struct {
	exact     map[netip.AddrPort]struct{}
	nodePorts map[uint16]struct{}
}

// add adds the frontends of a port.
func (d *doubts) add(p *plan.Port) {
	if d.exact == nil {
		d.exact, d.nodePorts = map[netip.AddrPort]struct{}{}, map[uint16]struct{}{}
	}
	for i := range p.Frontends {
		if f := &p.Frontends[i]; f.Kind == plan.NodePort {
			d.nodePorts[f.Port] = struct{}{}
		} else {
			d.exact[netip.AddrPortFrom(f.Addr, f.Port)] = struct{}{}
		}
	}
}

// Tried records what the Backend tried in a round that failed, after which Sync was not called: flows of it may exist. The
// next Sync removes them if they are stale. Tried must not be called at the same time as Sync. Its cost is that of the changes in d.
func (c *Cleaner) Tried(d *plan.Delta) {
	if d == nil {
		return
	}
	for _, ch := range d.Changes {
		same := len(ch.Before) == 1 && ch.Before[0] == ch.After
		if ch.After == nil || same || ch.After.Protocol != corev1.ProtocolUDP {
			continue
		}
		if c.doubts == nil {
			c.doubts = map[corev1.IPFamily]*doubts{}
		}
		if c.doubts[ch.After.Family] == nil {
			c.doubts[ch.After.Family] = &doubts{}
		}
		c.doubts[ch.After.Family].add(ch.After)
	}
}
