package plan

import (
	"slices"
	"strings"

	"github.com/vipkit/vipkit/endpoints"
)

// A presence counts what endpoints say of this node.
type presence struct {
	named  int // have the node's name
	astray int // have not, though their address is one of this node
}

func (s presence) add(o presence) presence { return presence{s.named + o.named, s.astray + o.astray} }
func (s presence) sub(o presence) presence { return presence{s.named - o.named, s.astray - o.astray} }

// presence counts the endpoints of one Service.
func (c *Config) presence(set *endpoints.Set) presence {
	var s presence
	for _, list := range set.All() {
		for _, e := range list {
			switch {
			case e.IsOn(c.Node.Name):
				s.named++
			case c.Node.hasEndpoint(e):
				s.astray++
			}
		}
	}
	return s
}

// hasEndpoint reports whether the address of an endpoint says that it is on this node. One in the
// host's network without nodeName, as those of the API servers, says nothing.
func (n *Node) hasEndpoint(e *endpoints.Endpoint) bool {
	a := e.Addr.Addr()
	return containsAddr(n.PodCIDRs, a) || e.NodeName != "" && slices.Contains(n.Addresses, a)
}

// samePlace reports whether no presence can differ between both nodes.
func (n *Node) samePlace(o *Node) bool {
	return n.Name == o.Name && slices.Equal(n.Addresses, o.Addresses) &&
		slices.Equal(n.PodCIDRs, o.PodCIDRs)
}

// nameProblem says that no endpoint has the node's name though some are here by their addresses:
// then the name is probably spelled otherwise in the EndpointSlices, or not at all.
func (p *Plan) nameProblem() []Problem {
	if p.here.named > 0 || p.here.astray == 0 {
		return nil
	}
	return []Problem{{
		Object: strings.TrimSpace("Node " + p.cfg.Node.Name),
		Field:  "metadata.name",
		Err:    "no endpoint has this nodeName, though some have addresses of this node: for policies Local and health checks none is here",
	}}
}
