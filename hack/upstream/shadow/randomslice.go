package shadow

import (
	"fmt"
	"hash/fnv"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// portNames are those of Services and slices; a Service may have some under each protocol.
func portNames() []string { return []string{"a", "b", ""} }

func (g *Generator) serviceName() string { return fmt.Sprintf("s%d", g.Intn(g.Options.Names)) }

// Slice returns a slice of one of the Services, of which each has up to three.
func (g *Generator) Slice() *discoveryv1.EndpointSlice {
	svc := g.serviceName()
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns", Name: fmt.Sprintf("%s-%d", svc, g.Intn(3)),
			Labels: map[string]string{discoveryv1.LabelServiceName: svc},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	if g.isIPv6() {
		s.AddressType = discoveryv1.AddressTypeIPv6
	}
	if g.Percent(20) {
		s.ResourceVersion = fmt.Sprint(g.Intn(5))
		s.Annotations = map[string]string{"x": fmt.Sprint(g.Intn(5))}
	}
	s.Ports = g.slicePorts()
	hints := g.Percent(60)
	for i := range g.Intn(5) {
		e := g.endpoint(s, i)
		if hints && g.Percent(92) {
			e.Hints = g.hints()
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

func (g *Generator) slicePorts() []discoveryv1.EndpointPort {
	var out []discoveryv1.EndpointPort
	for _, name := range portNames() {
		for _, protocol := range protocols() {
			if !g.Percent(25) {
				continue
			}
			p := discoveryv1.EndpointPort{Name: new(name), Protocol: new(protocol), Port: new(int32(8000 + g.Intn(2)))}
			if g.Options.NoNames && g.Percent(20) {
				p.Name = nil
			}
			if g.Options.Bad && g.Percent(20) {
				p.Port = Pick(g, nil, new(int32(0)), new(int32(-1)), new(int32(65536)), new(int32(1<<30)))
			}
			out = append(out, p)
		}
	}
	return out
}

// endpoint returns endpoint number i of the slice.
func (g *Generator) endpoint(s *discoveryv1.EndpointSlice, i int) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{g.address(s, i)}}
	if g.Percent(10) {
		e.Addresses = append(e.Addresses, g.address(s, i+7))
	}
	if g.Options.Bad && g.Percent(10) {
		e.Addresses = Pick(g, nil, []string{}, []string{"bogus"}, []string{"300.1.1.1"}, []string{""},
			[]string{"10.1.1.1/24"}, []string{"fe80::1%eth0"})
	}
	e.Conditions = discoveryv1.EndpointConditions{
		Ready: g.condition(50, 35), Serving: g.condition(50, 20), Terminating: g.condition(30, 50),
	}
	switch {
	case g.Options.Valid: // an address is on one node
		e.NodeName = new(nodes()[hash(e.Addresses[0])%len(nodes())])
	case g.Percent(85):
		e.NodeName = new(Pick(g, nodes()...))
	}
	return e
}

func (g *Generator) hints() *discoveryv1.EndpointHints {
	h := &discoveryv1.EndpointHints{}
	if g.Percent(80) {
		for range 1 + g.Intn(3) {
			h.ForZones = append(h.ForZones, discoveryv1.ForZone{Name: Pick(g, zones()...)})
		}
	}
	if g.Percent(60) {
		for range 1 + g.Intn(2) {
			h.ForNodes = append(h.ForNodes, discoveryv1.ForNode{Name: Pick(g, nodes()...)})
		}
	}
	return h
}

// address returns address number i of the slice; sometimes as only old objects spell it.
func (g *Generator) address(s *discoveryv1.EndpointSlice, i int) string {
	n := hash(s.Name) % 200
	if g.Options.Duplicates {
		n, i = hash(s.Labels[discoveryv1.LabelServiceName])%200, g.Intn(3)
	}
	old := !g.Options.Valid && g.Percent(5)
	switch {
	case g.isIPv6() && old:
		return fmt.Sprintf("fd00:10:1:0::%x:%x", n+1, i+1)
	case g.isIPv6():
		return fmt.Sprintf("fd00:10:1::%x:%x", n+1, i+1)
	case old:
		return fmt.Sprintf("10.1.%03d.%03d", n, i+1)
	}
	return fmt.Sprintf("10.1.%d.%d", n, i+1)
}

func hash(text string) int {
	h := fnv.New32a()
	h.Write([]byte(text))
	return int(h.Sum32() >> 1)
}
