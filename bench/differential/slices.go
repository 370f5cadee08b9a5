package main

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// A place is where an endpoint may be.
type place struct{ v4, v6, node string }

func places() []place {
	return []place{
		{"10.200.1.1", "fd00:200:1::1", nodeName},
		{"10.200.1.2", "fd00:200:1::2", nodeName},
		{"10.200.1.3", "fd00:200:1::3", nodeName},
		{"10.200.2.1", "fd00:200:2::1", otherName},
		{"10.200.2.2", "fd00:200:2::2", otherName},
		{"10.200.2.3", "fd00:200:2::3", otherName},
		{"192.0.2.10", "2001:db8:1::10", nodeName},
		{"192.0.2.20", "2001:db8:1::20", otherName},
	}
}

func (p place) address(f corev1.IPFamily) string {
	if f == corev1.IPv6Protocol {
		return p.v6
	}
	return p.v4
}

// A taste says what is likely in the slices of one Service, so that there are Services without ready endpoints and with
// complete hints, which are rare if each endpoint is drawn by itself.
type taste struct {
	letters []string // conditions to draw from
	hints   int      // 0 none, 1 zones, 2 zones and nodes, 3 a mixture
}

func (c *cluster) taste() taste {
	t := taste{letters: strings.Fields("R R R R R N T X P S nil")}
	switch n := c.rand.IntN(100); {
	case n < 10:
		t.letters = strings.Fields("N T X T S")
	case n < 15:
		t.letters = strings.Fields("T X P PX")
	}
	switch n := c.rand.IntN(100); {
	case n >= 92:
		t.hints = 3
	case n >= 75:
		t.hints = 2
	case n >= 50:
		t.hints = 1
	}
	return t
}

// makeSlices makes the slices of a Service anew.
func (c *cluster) makeSlices(service string) {
	for k, s := range c.slices {
		if s.Labels[discoveryv1.LabelServiceName] == service {
			delete(c.slices, k)
		}
	}
	for k := range c.states {
		if strings.HasPrefix(k, service+"/") {
			delete(c.states, k)
			delete(c.hints, k)
		}
	}
	families := c.service(service).Spec.IPFamilies
	if len(families) == 0 {
		families = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	if c.chance(5) {
		families = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} // left over from another family
	}
	t := c.taste()
	for _, f := range families {
		for i := range []int{0, 1, 1, 1, 1, 2, 2, 3}[c.rand.IntN(8)] {
			s := c.newSlice(c.service(service), f, i, t)
			c.slices[namespace+"/"+s.Name] = s
		}
	}
}

func (c *cluster) newSlice(svc *corev1.Service, f corev1.IPFamily, i int, t taste) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprintf("%s-%s-%d", svc.Name, strings.ToLower(string(f)), i),
			Labels: map[string]string{discoveryv1.LabelServiceName: svc.Name},
		},
		AddressType: discoveryv1.AddressType(f),
	}
	for k, v := range svc.Labels {
		s.Labels[k] = v
	}
	if svc.Spec.ClusterIP == corev1.ClusterIPNone {
		s.Labels[corev1.IsHeadlessService] = ""
	}
	for j, p := range svc.Spec.Ports {
		port := discoveryv1.EndpointPort{Name: ptr.To(p.Name), Protocol: ptr.To(p.Protocol), Port: ptr.To(int32(serverPorts()[(i*c.rand.IntN(2)+j)%3]))}
		if c.chance(2) {
			port.Port = nil
		}
		if !c.chance(3) {
			s.Ports = append(s.Ports, port)
		}
	}
	count := []int{0, 1, 1, 2, 2, 3, 3, 4, 5}[c.rand.IntN(9)]
	for _, x := range c.rand.Perm(len(places())) {
		if hostNetwork := x >= 6; hostNetwork && c.chance(60) {
			continue
		}
		if len(s.Endpoints) < count {
			s.Endpoints = append(s.Endpoints, c.endpoint(svc.Name, f, places()[x], t))
		}
	}
	return s
}

// endpoint makes an endpoint. All slices of a Service say the same of an address: what is chosen if they do not is decided
// differently, as documented.
func (c *cluster) endpoint(service string, f corev1.IPFamily, at place, t taste) discoveryv1.Endpoint {
	a := at.address(f)
	key := service + "/" + a
	if c.states[key] == "" {
		c.states[key] = c.pick(t.letters...)
		c.hints[key] = c.drawHints(at, t)
	}
	zone := map[string]string{nodeName: "za", otherName: "zb"}[at.node]
	return discoveryv1.Endpoint{
		Addresses: []string{a}, NodeName: ptr.To(at.node), Zone: &zone,
		Conditions: conditions(c.states[key]), Hints: c.hints[key].DeepCopy(),
	}
}

func (c *cluster) drawHints(at place, t taste) *discoveryv1.EndpointHints {
	zones := []discoveryv1.ForZone{{Name: c.pick("za", "za", "zb")}}
	if c.chance(20) {
		zones = append(zones, discoveryv1.ForZone{Name: "zc"})
	}
	nodes := []discoveryv1.ForNode{{Name: at.node}}
	kind := t.hints
	if kind == 3 {
		kind = c.rand.IntN(4)
	}
	switch kind {
	case 1:
		return &discoveryv1.EndpointHints{ForZones: zones}
	case 2:
		return &discoveryv1.EndpointHints{ForZones: zones, ForNodes: nodes}
	case 3:
		return &discoveryv1.EndpointHints{ForNodes: nodes}
	default:
		return nil
	}
}

// conditions returns those that a letter stands for; any other letter has none set.
func conditions(letter string) discoveryv1.EndpointConditions {
	c := func(ready, serving, terminating bool) discoveryv1.EndpointConditions {
		return discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating}
	}
	switch letter {
	case "R":
		return c(true, true, false)
	case "N":
		return c(false, false, false)
	case "T":
		return c(false, true, true)
	case "X":
		return c(false, false, true)
	case "P":
		return c(true, true, true)
	case "PX":
		return c(true, false, true)
	case "S":
		return c(false, true, false)
	default:
		return discoveryv1.EndpointConditions{}
	}
}
