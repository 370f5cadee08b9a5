package main

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/vipkit/vipkit/backends/backendtest"
)

const namespace = "ns"

// A cluster is random objects and settings at one moment. Everything comes from its seed. Objects are replaced and never
// modified, so that an equal pointer means that nothing changed.
type cluster struct {
	rand      *rand.Rand
	settings  backendtest.Settings
	localVIPs []netip.Addr // load-balancer IPs that the node has as well

	services map[string]*corev1.Service
	slices   map[string]*discoveryv1.EndpointSlice

	families [][]corev1.IPFamily
	states   map[string]string // by Service and address: conditions, on which all slices agree
	hints    map[string]*discoveryv1.EndpointHints

	nextService, nextVIP, nextExternal int
	nextNodePort, nextHealth           int32
}

func newCluster(seed uint64) *cluster {
	c := &cluster{
		rand:     rand.New(rand.NewPCG(seed, 77)), //nolint:gosec // to be played again
		services: map[string]*corev1.Service{}, slices: map[string]*discoveryv1.EndpointSlice{},
		states: map[string]string{}, hints: map[string]*discoveryv1.EndpointHints{},
		nextNodePort: 30080, nextHealth: 32000,
	}
	c.configure()
	four, six := corev1.IPv4Protocol, corev1.IPv6Protocol
	c.families = [][]corev1.IPFamily{{four}}
	if c.chance(55) {
		c.families = [][]corev1.IPFamily{{four}, {six}, {four, six}, {six, four}}
	}
	for range 3 + c.rand.IntN(3) {
		c.addService()
	}
	return c
}

// configure draws the settings of the node.
func (c *cluster) configure() {
	s := &c.settings
	s.NodeName, s.Addresses = nodeName, nodeAddrs()
	s.Zone = c.pick("za", "za", "zb", "")
	s.MasqueradeAll = c.chance(10)
	if c.chance(60) {
		s.ServiceCIDRs = serviceCIDRs()
	}
	switch c.pick("cidr", "cidr", "cidr", "interface", "none") {
	case "cidr":
		s.PodCIDRs = podCIDRs()
	case "interface":
		s.PodInterfaces = []string{"veth-*"}
	}
	switch n := c.rand.IntN(100); {
	case n < 55:
		s.NodePortAddresses = []string{"primary"}
	case n < 75:
		s.NodePortAddresses = []string{"0.0.0.0/0", "::/0"}
	default:
		s.NodePortAddresses = []string{"192.0.2.0/24", "2001:db8:1::/64"}
	}
	if c.chance(20) {
		c.localVIPs = localVIPs()
	}
}

func (c *cluster) chance(percent int) bool             { return c.rand.IntN(100) < percent }
func (c *cluster) pick(of ...string) string            { return of[c.rand.IntN(len(of))] }
func (c *cluster) service(name string) *corev1.Service { return c.services[namespace+"/"+name] }

// state is what the proxies get.
func (c *cluster) state() backendtest.State {
	s := backendtest.State{Settings: c.settings}
	for _, k := range sortedKeys(c.services) {
		s.Services = append(s.Services, c.services[k])
	}
	for _, k := range sortedKeys(c.slices) {
		s.EndpointSlices = append(s.EndpointSlices, c.slices[k])
	}
	return s
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (c *cluster) addService() {
	c.nextService++
	name := fmt.Sprintf("s%d", c.nextService)
	c.services[namespace+"/"+name] = c.newService(name, c.nextService)
	c.makeSlices(name)
}

// newService makes a Service as the API server would store it; id is part of its addresses.
func (c *cluster) newService(name string, id int) *corev1.Service {
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{},
		CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 1, 0, id%60, c.nextService%60, 0, time.UTC)),
	}}
	switch kind := c.rand.IntN(100); {
	case kind < 4:
		s.Spec = corev1.ServiceSpec{
			Type: corev1.ServiceTypeExternalName, ExternalName: "x.example",
			Ports: []corev1.ServicePort{{Name: "p0", Port: 80, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(80)}},
		}
		return s
	case kind < 8:
		s.Spec = corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone},
			IPFamilies: c.families[0], Ports: []corev1.ServicePort{{Name: "p0", Port: 80, Protocol: corev1.ProtocolTCP}},
		}
		return s
	case kind < 40:
		s.Spec.Type = corev1.ServiceTypeClusterIP
	case kind < 62:
		s.Spec.Type = corev1.ServiceTypeNodePort
	default:
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
	}
	c.setClusterIPs(s, id)
	c.setPorts(s)
	c.setExternalIPs(s)
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		c.setLoadBalancer(s)
	}
	c.setPolicies(s)
	return s
}

func (c *cluster) setClusterIPs(s *corev1.Service, id int) {
	spec := &s.Spec
	spec.IPFamilies = c.families[c.rand.IntN(len(c.families))]
	for _, f := range spec.IPFamilies {
		format := "10.96.0.%d"
		if f == corev1.IPv6Protocol {
			format = "fd00:96::%d"
		}
		spec.ClusterIPs = append(spec.ClusterIPs, fmt.Sprintf(format, 10+id))
	}
	spec.ClusterIP = spec.ClusterIPs[0]
	spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
	if len(spec.IPFamilies) == 2 {
		spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	}
}

func (c *cluster) setPorts(s *corev1.Service) {
	spec := &s.Spec
	n := 1 + c.rand.IntN(3)
	used := map[string]bool{}
	for i := range n {
		p := corev1.ServicePort{Name: fmt.Sprintf("p%d", i), Protocol: corev1.ProtocolTCP, Port: []int32{80, 53, 8080, 443}[c.rand.IntN(4)], TargetPort: intstr.FromString("web")}
		if c.chance(40) {
			p.Protocol = corev1.ProtocolUDP
		}
		if n == 1 && c.chance(40) {
			p.Name = ""
		}
		if key := fmt.Sprint(p.Port, p.Protocol); used[key] {
			continue
		} else {
			used[key] = true
		}
		if spec.Type != corev1.ServiceTypeClusterIP {
			c.setNodePort(spec, &p)
		}
		spec.Ports = append(spec.Ports, p)
	}
}

// setNodePort gives a port a number of its own, now and then that of the port before with the other protocol.
func (c *cluster) setNodePort(spec *corev1.ServiceSpec, p *corev1.ServicePort) {
	if n := len(spec.Ports); n > 0 && spec.Ports[n-1].Protocol != p.Protocol && c.chance(30) {
		p.NodePort = spec.Ports[n-1].NodePort
		if !slices.ContainsFunc(spec.Ports, func(o corev1.ServicePort) bool { return o.NodePort == p.NodePort && o.Protocol == p.Protocol }) {
			return
		}
	}
	p.NodePort = c.nextNodePort
	c.nextNodePort++
	if spec.Type == corev1.ServiceTypeLoadBalancer && c.chance(10) {
		p.NodePort, spec.AllocateLoadBalancerNodePorts = 0, ptr.To(false)
	}
}

func (c *cluster) setExternalIPs(s *corev1.Service) {
	if !c.chance(25) {
		return
	}
	for range 1 + c.rand.IntN(2) {
		c.nextExternal++
		s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, fmt.Sprintf(c.pick("203.0.113.%d", "2001:db8:9::%d"), 100+c.nextExternal%60))
	}
	if c.chance(20) && !c.taken(s, "192.0.2.110") {
		s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, "192.0.2.110")
	}
}

// taken reports whether another Service has an address with one of the ports of s. Such conflicts are decided differently, as
// documented.
func (c *cluster) taken(s *corev1.Service, ip string) bool {
	for _, o := range c.services {
		has := o.Name != s.Name && (slices.Contains(o.Spec.ExternalIPs, ip) ||
			slices.ContainsFunc(o.Status.LoadBalancer.Ingress, func(i corev1.LoadBalancerIngress) bool { return i.IP == ip }))
		if has && slices.ContainsFunc(o.Spec.Ports, func(a corev1.ServicePort) bool {
			return slices.ContainsFunc(s.Spec.Ports, func(b corev1.ServicePort) bool { return a.Port == b.Port && a.Protocol == b.Protocol })
		}) {
			return true
		}
	}
	return false
}

func (c *cluster) setLoadBalancer(s *corev1.Service) {
	var ips []string
	for range 1 + c.rand.IntN(2) {
		c.nextVIP++
		ips = append(ips, fmt.Sprintf(c.pick("203.0.113.%d", "2001:db8:9::%d"), 41+c.nextVIP%50))
	}
	if c.chance(20) { // like a load balancer that announces the nodes' own addresses
		ips = append(ips, c.pick("192.0.2.10", "2001:db8:1::10", "192.0.2.110"))
	}
	if len(c.localVIPs) > 0 && c.chance(50) {
		ips = append(ips, c.localVIPs[c.rand.IntN(2)].String())
	}
	seen := map[string]bool{}
	for _, ip := range ips {
		if seen[ip] || c.taken(s, ip) {
			continue
		}
		seen[ip] = true
		in := corev1.LoadBalancerIngress{IP: ip, IPMode: ptr.To(corev1.LoadBalancerIPModeVIP)}
		switch {
		case c.chance(15):
			in.IPMode = ptr.To(corev1.LoadBalancerIPModeProxy)
		case c.chance(20):
			in.IPMode = nil
		}
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, in)
	}
	if c.chance(10) {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{Hostname: "lb.example"})
	}
	if c.chance(40) {
		for range 1 + c.rand.IntN(3) {
			s.Spec.LoadBalancerSourceRanges = append(s.Spec.LoadBalancerSourceRanges, c.pick(sourceRanges()...))
		}
	}
}

func sourceRanges() []string {
	return strings.Split("198.51.100.0/24|198.18.0.4/32|10.200.0.0/16|10.200.1.1/32|192.0.2.0/24|192.0.2.10/32|2001:db8:5::/64|"+
		"2001:db8:1::/64|fd00:200:1::/64|0.0.0.0/0|::/0| 198.51.100.0/24 |198.51.100.77/24|198.51.100.0/25|203.0.113.0/24", "|")
}

func (c *cluster) setPolicies(s *corev1.Service) {
	spec := &s.Spec
	spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyCluster)
	if c.chance(25) {
		spec.InternalTrafficPolicy = ptr.To(corev1.ServiceInternalTrafficPolicyLocal)
	}
	if spec.Type != corev1.ServiceTypeClusterIP || len(spec.ExternalIPs) > 0 {
		spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
		if c.chance(45) {
			c.makeLocal(spec)
		}
	}
	spec.SessionAffinity = corev1.ServiceAffinityNone
	if c.chance(20) {
		setAffinity(spec, []int32{10800, 600}[c.rand.IntN(2)])
	}
	spec.PublishNotReadyAddresses = c.chance(10)
	switch c.rand.IntN(8) {
	case 0:
		spec.TrafficDistribution = ptr.To(corev1.ServiceTrafficDistributionPreferClose)
	case 1:
		spec.TrafficDistribution = ptr.To("PreferSameZone")
	case 2:
		spec.TrafficDistribution = ptr.To("PreferSameNode")
	}
	if c.chance(3) {
		s.Labels["service.kubernetes.io/service-proxy-name"] = c.pick("other", "")
	}
	if c.chance(2) {
		s.Labels[corev1.IsHeadlessService] = ""
	}
}

func (c *cluster) makeLocal(spec *corev1.ServiceSpec) {
	spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	if spec.Type == corev1.ServiceTypeLoadBalancer {
		spec.HealthCheckNodePort = c.nextHealth
		c.nextHealth++
	}
}

func setAffinity(spec *corev1.ServiceSpec, seconds int32) {
	spec.SessionAffinity = corev1.ServiceAffinityClientIP
	spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &seconds}}
}
