package main

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// change changes some objects, and returns what it did in words.
func (c *cluster) change() (log []string) {
	for range 1 + c.rand.IntN(4) {
		log = append(log, c.changeOne())
	}
	return log
}

func (c *cluster) changeOne() string {
	services, sls := sortedKeys(c.services), sortedKeys(c.slices)
	op := c.rand.IntN(100)
	if len(services) == 0 || op < 8 {
		c.addService()
		return fmt.Sprintf("add Service s%d", c.nextService)
	}
	key := services[c.rand.IntN(len(services))]
	s := c.services[key]
	switch {
	case op < 14:
		return c.deleteService(key)
	case op < 24:
		c.services[key] = c.newService(s.Name, 20+c.rand.IntN(200))
		if c.chance(50) {
			c.makeSlices(s.Name)
		}
		return "new spec for " + s.Name
	case op < 44:
		s = s.DeepCopy()
		what := c.changeService(s)
		c.services[key] = s
		return what
	case op < 54:
		c.makeSlices(s.Name)
		return "new slices for " + s.Name
	}
	if len(sls) == 0 || op >= 95 {
		c.settings.Zone = c.pick("za", "zb", "")
		return fmt.Sprintf("zone %q", c.settings.Zone)
	}
	slice := sls[c.rand.IntN(len(sls))]
	if op < 60 {
		delete(c.slices, slice)
		return "delete slice " + slice
	}
	return c.changeSlice(slice)
}

func (c *cluster) deleteService(key string) string {
	name := c.services[key].Name
	delete(c.services, key)
	if !c.chance(60) {
		return "delete Service " + name
	}
	maps.DeleteFunc(c.slices, func(_ string, s *discoveryv1.EndpointSlice) bool {
		return s.Labels[discoveryv1.LabelServiceName] == name
	})
	return "delete Service and slices of " + name
}

// changeService changes one field of a Service that is proxied.
func (c *cluster) changeService(s *corev1.Service) string {
	spec := &s.Spec
	if spec.ClusterIP == corev1.ClusterIPNone || spec.Type == corev1.ServiceTypeExternalName {
		return s.Name + " is left alone"
	}
	p := &spec.Ports[c.rand.IntN(len(spec.Ports))]
	switch c.rand.IntN(8) {
	case 0:
		c.flipExternalPolicy(spec)
		return s.Name + " has another external policy"
	case 1:
		local := *spec.InternalTrafficPolicy == corev1.ServiceInternalTrafficPolicyLocal
		spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
		if local {
			spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyCluster)
		}
		return s.Name + " has another internal policy"
	case 2:
		if spec.SessionAffinity == corev1.ServiceAffinityNone || c.chance(50) {
			setAffinity(spec, []int32{10800, 700}[c.rand.IntN(2)])
		} else {
			spec.SessionAffinity, spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
		}
		return s.Name + " has another affinity"
	case 3:
		p.Port = freePort(spec)
		return fmt.Sprintf("%s has port %d", s.Name, p.Port)
	case 4:
		spec.ExternalIPs = nil
		c.setExternalIPs(s)
		if len(spec.ExternalIPs) > 0 && spec.ExternalTrafficPolicy == "" {
			spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
		}
		return fmt.Sprintf("%s has external IPs %v", s.Name, spec.ExternalIPs)
	}
	switch spec.Type {
	case corev1.ServiceTypeLoadBalancer:
		s.Status.LoadBalancer.Ingress, spec.LoadBalancerSourceRanges = nil, nil
		c.setLoadBalancer(s)
		return s.Name + " has another load balancer"
	case corev1.ServiceTypeNodePort:
		p.NodePort = c.nextNodePort
		c.nextNodePort++
		return fmt.Sprintf("%s has NodePort %d", s.Name, p.NodePort)
	default:
		return s.Name + " is left alone"
	}
}

func (c *cluster) flipExternalPolicy(spec *corev1.ServiceSpec) {
	switch spec.ExternalTrafficPolicy {
	case corev1.ServiceExternalTrafficPolicyLocal:
		spec.ExternalTrafficPolicy, spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyCluster, 0
	case corev1.ServiceExternalTrafficPolicyCluster:
		c.makeLocal(spec)
	default: // only internal addresses
	}
}

// freePort returns a port that the Service does not have.
func freePort(spec *corev1.ServiceSpec) int32 {
	port := int32(81)
	for slices.ContainsFunc(spec.Ports, func(p corev1.ServicePort) bool { return p.Port == port }) {
		port++
	}
	return port
}

// changeSlice changes endpoints of one slice, and where another slice has the same endpoint, there too.
func (c *cluster) changeSlice(key string) string {
	s := c.slices[key].DeepCopy()
	service, n := s.Labels[discoveryv1.LabelServiceName], len(s.Endpoints)
	if c.services[namespace+"/"+service] == nil {
		return key + " has no Service and is left alone"
	}
	defer func() { c.slices[key] = s }()
	switch op := c.rand.IntN(10); {
	case op < 4 && n > 0:
		a := s.Endpoints[c.rand.IntN(n)].Addresses[0]
		c.states[service+"/"+a] = c.pick("R", "R", "N", "T", "X")
		c.agree(service, s)
		return fmt.Sprintf("%s of %s is %s", a, s.Name, c.states[service+"/"+a])
	case op < 6 && n > 0:
		i := c.rand.IntN(n)
		a := s.Endpoints[i].Addresses[0]
		s.Endpoints = slices.Delete(s.Endpoints, i, i+1)
		return s.Name + " loses " + a
	case op < 8:
		at := places()[c.rand.IntN(len(places()))]
		e := c.endpoint(service, corev1.IPFamily(s.AddressType), at, taste{letters: []string{"R", "nil", "N"}})
		if !slices.ContainsFunc(s.Endpoints, func(o discoveryv1.Endpoint) bool { return o.Addresses[0] == e.Addresses[0] }) {
			s.Endpoints = append(s.Endpoints, e)
		}
		return s.Name + " gets " + e.Addresses[0]
	case op == 8:
		s.Annotations = map[string]string{"x": fmt.Sprint(c.rand.Int())}
		return s.Name + " has other metadata"
	default:
		c.newHints(service)
		c.agree(service, s)
		return service + " has other hints"
	}
}

// newHints draws the hints of all endpoints of a Service.
func (c *cluster) newHints(service string) {
	t := taste{hints: c.rand.IntN(3)}
	for _, key := range sortedKeys(c.hints) {
		for _, p := range places() {
			if key == service+"/"+p.v4 || key == service+"/"+p.v6 {
				c.hints[key] = c.drawHints(p, t)
			}
		}
	}
}

// agree writes what is now true of a Service's endpoints into s and, as copies, into the other slices.
func (c *cluster) agree(service string, s *discoveryv1.EndpointSlice) {
	set := func(s *discoveryv1.EndpointSlice) {
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			key := service + "/" + e.Addresses[0]
			e.Conditions, e.Hints = conditions(c.states[key]), c.hints[key].DeepCopy()
		}
	}
	set(s)
	for k, o := range c.slices {
		if o.Name != s.Name && o.Labels[discoveryv1.LabelServiceName] == service {
			o = o.DeepCopy()
			set(o)
			c.slices[k] = o
		}
	}
}
