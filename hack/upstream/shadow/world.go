package shadow

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A Proxier is how a proxier of upstream is configured.
type Proxier struct {
	Node, Zone             string
	NodeIPs                []string
	PodCIDRs, ServiceCIDRs []string // what is no CIDR is left out
	MasqueradeAll          bool
	NodePortAddresses      string // as upstream prints them
	Localhost              bool   // serves NodePorts on loopback, too
	NoLocalhost            bool   // does not, whatever NodePortAddresses say
	Single                 bool   // "all addresses" are NodeIPs one by one
}

// Config returns the same for a plan.
func (p Proxier) Config() plan.Config {
	cfg := plan.Config{
		Node:          plan.Node{Name: p.Node, Zone: p.Zone, PodCIDRs: prefixes(p.PodCIDRs)},
		ServiceCIDRs:  prefixes(p.ServiceCIDRs),
		MasqueradeAll: p.MasqueradeAll,
	}
	for _, ip := range p.NodeIPs {
		if a, err := netip.ParseAddr(ip); err == nil {
			cfg.Node.Addresses = append(cfg.Node.Addresses, a)
		}
	}
	// Upstream's own defaulting has made sure that these can be parsed.
	cfg.NodePortAddresses, _ = plan.ParseNodePortSelector(strings.Fields(strings.Trim(p.NodePortAddresses, "[]")))
	cfg.NodePortAddresses.Localhost = cfg.NodePortAddresses.Localhost || p.Localhost
	if p.NoLocalhost {
		cfg.NodePortAddresses.Localhost = false
		cfg.NodePortAddresses.Prefixes = slices.DeleteFunc(cfg.NodePortAddresses.Prefixes,
			func(c netip.Prefix) bool { return c.Addr().IsLoopback() })
	}
	if p.Single && slices.ContainsFunc(cfg.NodePortAddresses.Prefixes, func(c netip.Prefix) bool { return c.Bits() == 0 }) {
		cfg.NodePortAddresses.Prefixes = nil
		for _, a := range cfg.Node.Addresses {
			cfg.NodePortAddresses.Prefixes = append(cfg.NodePortAddresses.Prefixes, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	return cfg
}

func prefixes(texts []string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		if p, err := netip.ParsePrefix(strings.TrimSpace(t)); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// A Handler is given objects, as proxiers of upstream are.
type Handler interface {
	OnServiceAdd(*corev1.Service)
	OnServiceUpdate(old, current *corev1.Service)
	OnServiceDelete(*corev1.Service)
	OnEndpointSliceAdd(*discoveryv1.EndpointSlice)
	OnEndpointSliceUpdate(old, current *discoveryv1.EndpointSlice)
	OnEndpointSliceDelete(*discoveryv1.EndpointSlice)
}

// A World has random objects that a Handler was told of.
type World struct {
	g        *Generator
	to       Handler
	services map[string]*corev1.Service
	slices   map[string]*discoveryv1.EndpointSlice
}

// NewWorld returns an empty one.
func NewWorld(g *Generator, to Handler) *World {
	return &World{g: g, to: to, services: map[string]*corev1.Service{}, slices: map[string]*discoveryv1.EndpointSlice{}}
}

// Change makes n changes.
func (w *World) Change(n int) {
	for range n {
		if w.g.Percent(50) {
			w.changeService()
		} else {
			w.changeSlice()
		}
	}
}

func (w *World) changeService() {
	s := w.g.Service()
	old := w.services[s.Name]
	switch {
	case old != nil && w.g.Percent(12):
		w.to.OnServiceDelete(old)
		delete(w.services, s.Name)
		return
	case old != nil:
		w.to.OnServiceUpdate(old, s)
	default:
		w.to.OnServiceAdd(s)
	}
	w.services[s.Name] = s
}

func (w *World) changeSlice() {
	s := w.g.Slice()
	old := w.slices[s.Name]
	switch {
	case old != nil && w.g.Percent(12):
		w.to.OnEndpointSliceDelete(old)
		delete(w.slices, s.Name)
		return
	case old != nil:
		w.to.OnEndpointSliceUpdate(old, s)
	default:
		w.to.OnEndpointSliceAdd(s)
	}
	w.slices[s.Name] = s
}

// Places are where packets come from and go to.
type Places struct {
	Sources, Destinations []string
	Ports                 []int
}

// Packets returns n packets between the places and addresses of the objects.
func (w *World) Packets(n int, places Places) []Packet {
	all := w.places()
	src := w.OfFamily(append(places.Sources, all.Sources...))
	dst := w.OfFamily(append(places.Destinations, all.Destinations...))
	var out []Packet
	for range n {
		out = append(out, Packet{
			Source: Pick(w.g, src...), Destination: Pick(w.g, dst...), Port: Pick(w.g, all.Ports...),
			Protocol: Pick(w.g, "tcp", "udp", "sctp"),
		})
	}
	return out
}

// places are in a fixed order, so that a seed gives the same packets always.
func (w *World) places() Places {
	p := PlacesOf(w.services)
	p.Ports = append(p.Ports, 80, 81, 82, 83, 30009)
	for _, name := range slices.Sorted(maps.Keys(w.slices)) {
		for _, e := range w.slices[name].Endpoints {
			if w.g.Percent(33) {
				p.Sources = append(p.Sources, e.Addresses[0])
			}
		}
	}
	return p
}

// PlacesOf returns the addresses and NodePorts of the Services.
func PlacesOf(services map[string]*corev1.Service) Places {
	var p Places
	for _, name := range slices.Sorted(maps.Keys(services)) {
		s := services[name]
		p.Destinations = append(p.Destinations, s.Spec.ClusterIPs...)
		p.Destinations = append(p.Destinations, s.Spec.ExternalIPs...)
		for _, in := range s.Status.LoadBalancer.Ingress {
			p.Destinations = append(p.Destinations, in.IP)
		}
		for _, port := range s.Spec.Ports {
			if port.NodePort != 0 {
				p.Ports = append(p.Ports, int(port.NodePort))
			}
		}
	}
	return p
}

// OfFamily returns the addresses of the generator's family.
func (w *World) OfFamily(texts []string) []string {
	var out []string
	for _, t := range texts {
		if a, err := netip.ParseAddr(t); err == nil && a.Is6() == w.g.isIPv6() {
			out = append(out, t)
		}
	}
	return out
}
