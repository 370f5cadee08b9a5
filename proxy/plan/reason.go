package plan

import (
	"fmt"
	"strings"

	"github.com/vipkit/vipkit/internal/printable"
	"github.com/vipkit/vipkit/topology"
)

// reason says in words why a frontend treats a packet as action does.
func (p *Plan) reason(t *Trace, action Action) string {
	local := "internalTrafficPolicy"
	if t.Frontend.Kind != ClusterIP {
		local = "externalTrafficPolicy"
	}
	switch action.Verdict {
	case Reject:
		return fmt.Sprintf("%s has no usable endpoint", t.Port.PortName)
	case Drop:
		return fmt.Sprintf("%s is Local and %s has no endpoint of %s", local, p.nodeName(), t.Port.PortName)
	case Forward:
		return strings.Join(p.forwarded(t, action, local), "; ")
	case Pass: // only where no frontend matches
	}
	return ""
}

func (p *Plan) forwarded(t *Trace, action Action, policy string) []string {
	var words []string
	switch {
	case action.Pool == LocalPool:
		words = append(words, fmt.Sprintf("%s is Local: endpoints of %s", policy, p.nodeName()))
	case t.Frontend.shortCut():
		words = append(words, "externalTrafficPolicy is Local, which does not bind clients on the node: endpoints of the whole cluster")
	default:
		words = append(words, "endpoints of the whole cluster")
	}
	if action.Pool == ClusterPool && t.Port.Mode != topology.ModeNone {
		words = append(words, fmt.Sprintf("hints choose those for this %s", t.Port.Mode))
	}
	switch {
	case action.Masquerade && p.cfg.MasqueradeAll && t.Frontend.Kind == ClusterIP:
		words = append(words, "masqueraded because everything to ClusterIPs is")
	case action.Masquerade && t.Frontend.Kind == ClusterIP:
		words = append(words, "masqueraded because the client is no pod of this node")
	case action.Masquerade && t.Frontend.shortCut():
		words = append(words, "masqueraded because the client is the node itself")
	case action.Masquerade:
		words = append(words, "masqueraded so that the answer comes back through this node")
	}
	return words
}

// shortCut reports whether the policy Local binds only clients outside: they are
// not sent to the cluster pool, but the node is.
func (f *Frontend) shortCut() bool {
	return f.Kind != ClusterIP && f.Actions[FromNode].Pool == ClusterPool && f.Actions[FromOutside].Pool != ClusterPool
}

func (p *Plan) nodeName() string {
	if p.cfg.Node.Name == "" {
		return "a node without name"
	}
	return "node " + printable.Text(p.cfg.Node.Name)
}
