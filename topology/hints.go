package topology

import (
	"slices"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/internal/printable"
)

// A census is what one pass over the endpoints of a Service port tells.
type census struct {
	ready, usable int // an endpoint that is both counts as ready
	nodes, zones  hints
}

// hints are what the endpoints say about one kind of hint.
type hints struct {
	given   bool                // some endpoint has one, ready or not
	missing *endpoints.Endpoint // the first ready endpoint without one
	ours    bool                // one of a ready endpoint names this node or zone
}

func count(eps []*endpoints.Endpoint, node Node) census {
	var c census
	for _, e := range eps {
		switch {
		case e.Ready:
			c.ready++
		case e.Usable():
			c.usable++
		}
		c.nodes.add(e, e.Hints.Nodes(), node.Name)
		c.zones.add(e, e.Hints.Zones(), node.Zone)
	}
	return c
}

// add records the hints of one kind that e has; self is this node or zone.
func (h *hints) add(e *endpoints.Endpoint, names []string, self string) {
	h.given = h.given || len(names) > 0
	if !e.Ready {
		return
	}
	if len(names) == 0 && h.missing == nil {
		h.missing = e
	}
	h.ours = h.ours || hinted(names, self)
}

// hinted reports whether names contain self. No hint is meant for a node without
// a name or zone, not even an empty one, which the API forbids.
func hinted(names []string, self string) bool {
	return self != "" && slices.Contains(names, self)
}

// applies reports whether every ready endpoint has a hint and one is for us.
func (h *hints) applies() bool { return h.missing == nil && h.ours }

// mode returns the narrowest mode that applies, and why not a narrower one.
func (c *census) mode(node Node) (Mode, string) {
	if !c.nodes.given && !c.zones.given {
		return ModeNone, ""
	}
	if c.ready == 0 {
		return ModeNone, "hints count on ready endpoints only, and none is ready"
	}
	if c.nodes.applies() {
		return ModeNode, ""
	}
	reason := c.nodes.reason("node", node.Name, "the node has no name")
	if c.zones.applies() {
		return ModeZone, reason
	}
	zone := c.zones.reason("zone", node.Zone, "node "+printable.Text(node.Name)+" has no zone label")
	if reason != "" && zone != "" {
		reason += "; "
	}
	return ModeNone, reason + zone
}

// reason says why the hints of this kind do not apply, which must be so; "" if
// there are none. nobody is the reason if self, this node or zone, is empty.
func (h *hints) reason(kind, self, nobody string) string {
	switch {
	case !h.given:
		return ""
	case self == "":
		return nobody
	case h.missing != nil:
		return "ready endpoint " + h.missing.String() + " has no " + kind + " hint"
	default:
		return "no ready endpoint is hinted for " + kind + " " + printable.Text(self)
	}
}
