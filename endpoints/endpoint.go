package endpoints

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/ext"
)

// An Endpoint is one address and port that answers for a Service port.
//
// Endpoints are shared between the tracker, the plan and every consumer: they
// are never changed after they were published, and nobody else may change them.
type Endpoint struct {
	// Addr is where connections go: the first address of the endpoint with the
	// port number of its slice. It is canonical: an IPv4 address is never mapped
	// into IPv6, and has no zone.
	Addr netip.AddrPort

	// Ready, Serving and Terminating are the conditions of the EndpointSlice API
	// with nil resolved: ready and serving default to true, terminating to false.
	Ready, Serving, Terminating bool

	// Weight is the relative share of new connections for data planes that can
	// weigh (ipvs); the others ignore it. The tracker sets 1, a hook may choose
	// another. 0 means no new connections.
	Weight uint16

	// NodeName is the node that the endpoint runs on, "" if unknown. It is
	// compared byte by byte.
	NodeName string

	// Hints say who should use the endpoint, nil if nobody in particular. Endpoints
	// share them, which are never changed.
	Hints *Hints

	// Ext is what a hook attached, nil if nothing. It is compared with ==.
	Ext any
}

// Hints are the zones and nodes that should use an endpoint (hints of the
// EndpointSlice API). Both lists are sorted and have each name once; empty means
// no hint. A nil *Hints has none.
type Hints struct {
	ForZones, ForNodes []string
}

// Zones returns the zones that should use the endpoint. The caller must not change
// the list.
func (h *Hints) Zones() []string {
	if h == nil {
		return nil
	}
	return h.ForZones
}

// Nodes returns the nodes that should use the endpoint. The caller must not change
// the list.
func (h *Hints) Nodes() []string {
	if h == nil {
		return nil
	}
	return h.ForNodes
}

// equal reports whether both name the same zones and nodes.
func (h *Hints) equal(o *Hints) bool {
	return h == o || slices.Equal(h.Zones(), o.Zones()) && slices.Equal(h.Nodes(), o.Nodes())
}

// String returns the address and port, as in "10.0.0.1:80" or "[fd00::1]:80".
func (e *Endpoint) String() string {
	if e == nil {
		return "<nil>"
	}
	return e.Addr.String()
}

// Usable reports whether new connections may be sent to the endpoint when no
// ready one is left: it is terminating but still serving (KEP-1669).
func (e *Endpoint) Usable() bool { return e != nil && e.Serving && e.Terminating }

// IsOn reports whether the endpoint runs on the node of that name. Nothing runs on a node
// without a name.
func (e *Endpoint) IsOn(node string) bool { return e != nil && node != "" && e.NodeName == node }

// Compare orders endpoints by the bytes of their text, so that 10.0.0.10:80
// comes before 10.0.0.2:80. nil comes before all others.
func Compare(a, b *Endpoint) int {
	if a == nil || b == nil {
		return compareBool(a == nil, b == nil)
	}
	return compareText(a.Addr, b.Addr)
}

// Equal reports whether a and b are the same in every field that is used. An Ext that cannot be
// compared is like no other.
func Equal(a, b *Endpoint) bool {
	if a == b {
		return true
	}
	if a == nil || b == nil {
		return false
	}
	return a.Addr == b.Addr && a.Ready == b.Ready && a.Serving == b.Serving && a.Terminating == b.Terminating &&
		a.NodeName == b.NodeName && a.Weight == b.Weight && ext.Equal(a.Ext, b.Ext) && a.Hints.equal(b.Hints)
}

// A Key names one list of endpoints inside a Service: a port name, a protocol
// and an IP family. Port is "" for an unnamed port.
type Key struct {
	Port     string
	Protocol corev1.Protocol
	Family   corev1.IPFamily
}

// Compare orders keys by port name, protocol and family.
func (k Key) Compare(o Key) int {
	return cmp.Or(strings.Compare(k.Port, o.Port), strings.Compare(string(k.Protocol), string(o.Protocol)),
		strings.Compare(string(k.Family), string(o.Family)))
}

// Better reports whether the conditions of a are preferred to those of b when both claim one
// address: not terminating before terminating, then ready, then serving. Anything is better
// than nil.
func Better(a, b *Endpoint) bool {
	if a == nil || b == nil {
		return a != nil && b == nil
	}
	return compareState(a, b) < 0
}
