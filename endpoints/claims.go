package endpoints

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A claim is what one slice says of an address. A zero claim says nothing.
type claim struct {
	ep *Endpoint
	at time.Time // when the slice last changed, as it says itself; zero if it does not
}

// comparePreferred orders claims for one address, the preferred one first. It looks at neither
// the names of the slices nor the order of events: 0 says that both know the same, but for Ext,
// which has no order.
func comparePreferred(a, b claim) int {
	return cmp.Or(
		compareState(a.ep, b.ep),
		b.at.Compare(a.at),
		strings.Compare(b.ep.NodeName, a.ep.NodeName),
		slices.Compare(b.ep.Hints.Zones(), a.ep.Hints.Zones()),
		slices.Compare(b.ep.Hints.Nodes(), a.ep.Hints.Nodes()),
		cmp.Compare(b.ep.Weight, a.ep.Weight),
	)
}

// compareState orders endpoints by their conditions, the better ones first.
func compareState(a, b *Endpoint) int {
	return cmp.Or(compareBool(b.Terminating, a.Terminating), compareBool(a.Ready, b.Ready), compareBool(a.Serving, b.Serving))
}

// compareBool orders true before false.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// complete returns e with what only o knows: the node, each list of hints, Ext. It returns e
// itself if there is nothing of the kind, and changes neither.
func complete(e, o *Endpoint) *Endpoint {
	c := *e
	if c.NodeName == "" {
		c.NodeName = o.NodeName
	}
	if c.Ext == nil {
		c.Ext = o.Ext
	}
	c.Hints = c.Hints.complete(o.Hints)
	if Equal(&c, e) {
		return e
	}
	return &c
}

// complete returns h with the lists of o that h does not have.
func (h *Hints) complete(o *Hints) *Hints {
	zones := len(h.Zones()) == 0 && len(o.Zones()) > 0
	nodes := len(h.Nodes()) == 0 && len(o.Nodes()) > 0
	switch {
	case !zones && !nodes:
		return h
	case zones && nodes:
		return o
	case zones:
		return &Hints{ForZones: o.Zones(), ForNodes: h.Nodes()}
	default:
		return &Hints{ForZones: h.Zones(), ForNodes: o.Nodes()}
	}
}
