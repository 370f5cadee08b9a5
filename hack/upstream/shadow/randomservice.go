package shadow

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Service returns one of the Services. No two claim one address or NodePort.
func (g *Generator) Service() *corev1.Service {
	n := g.Intn(g.Options.Names)
	s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: fmt.Sprintf("s%d", n)}}
	s.Spec.Type = Pick(g, corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer)
	if !g.Options.Valid && g.Percent(3) {
		s.Spec.Type = corev1.ServiceTypeExternalName
	}
	if g.Percent(10) {
		s.Annotations = map[string]string{"y": fmt.Sprint(g.Intn(3))}
	}
	g.clusterIPs(s, n)
	g.servicePorts(s, n)
	g.externalIPs(s, n)
	g.policies(s)
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		g.loadBalancer(s, n)
	} else if !g.Options.Valid && g.Percent(5) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: g.externalIP(n, 20)}}
	}
	return s
}

func (g *Generator) clusterIPs(s *corev1.Service, n int) {
	v4, v6 := fmt.Sprintf("172.30.1.%d", n+1), fmt.Sprintf("fd00:10:96::1:%x", n+1)
	one, ip := corev1.IPv4Protocol, v4
	if g.isIPv6() {
		one, ip = corev1.IPv6Protocol, v6
	}
	s.Spec.IPFamilies, s.Spec.ClusterIPs = []corev1.IPFamily{one}, []string{ip}
	switch g.Intn(6) {
	case 0:
		s.Spec.IPFamilies, s.Spec.ClusterIPs = []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol}, []string{v4, v6}
	case 1:
		s.Spec.IPFamilies, s.Spec.ClusterIPs = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}, []string{v6, v4}
	}
	s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	if g.Options.Valid {
		return
	}
	switch g.Intn(25) {
	case 0:
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
	case 1:
		s.Spec.ClusterIP, s.Spec.ClusterIPs = corev1.ClusterIPNone, []string{corev1.ClusterIPNone}
	case 2:
		s.Spec.IPFamilies = nil
	case 3:
		s.Spec.ClusterIPs = s.Spec.ClusterIPs[:1]
	case 4:
		if !g.isIPv6() {
			old := fmt.Sprintf("172.030.001.%03d", n+1)
			s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilies = old, []string{old}, []corev1.IPFamily{corev1.IPv4Protocol}
		}
	}
}

func (g *Generator) servicePorts(s *corev1.Service, n int) {
	for i, name := range portNames() {
		for j, protocol := range protocols() {
			if !g.Percent(30) {
				continue
			}
			p := corev1.ServicePort{Name: name, Protocol: protocol, Port: int32(80 + i)}
			if s.Spec.Type != corev1.ServiceTypeClusterIP && g.Percent(85) || !g.Options.Valid && g.Percent(3) {
				p.NodePort = int32(30000 + n*16 + i*3 + j)
			}
			if g.Options.Bad && g.Percent(5) {
				p.Port = Pick[int32](g, 0, -1, 70000)
			}
			if g.Options.Bad && g.Percent(5) {
				p.NodePort = Pick[int32](g, -1, 70000)
			}
			s.Spec.Ports = append(s.Spec.Ports, p)
		}
	}
}

// externalIP returns external address number i of Service n, of either family.
func (g *Generator) externalIP(n, i int) string {
	if g.Percent(40) {
		return fmt.Sprintf("2001:db8:99::%x:%x", n+1, i+1)
	}
	return fmt.Sprintf("192.168.%d.%d", 100+n, i+1)
}

func (g *Generator) externalIPs(s *corev1.Service, n int) {
	for i := range max(0, g.Intn(5)-2) {
		s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, g.externalIP(n, i))
	}
	if g.Options.Bad && g.Percent(10) {
		s.Spec.ExternalIPs = append(s.Spec.ExternalIPs, Pick(g, "", " ", "bogus", "1.2.3", "010.1.2.3"))
	}
}

func (g *Generator) policies(s *corev1.Service) {
	if g.Percent(40) {
		s.Spec.InternalTrafficPolicy = new(Pick(g, corev1.ServiceInternalTrafficPolicyCluster, corev1.ServiceInternalTrafficPolicyLocal))
	}
	external := !g.Options.Valid || s.Spec.Type != corev1.ServiceTypeClusterIP || len(s.Spec.ExternalIPs) > 0
	if g.Percent(60) && external {
		s.Spec.ExternalTrafficPolicy = Pick(g, corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	}
	if !g.Options.NoAffinity && g.Percent(20) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(1 + g.Intn(3)))},
		}
	}
}

func (g *Generator) loadBalancer(s *corev1.Service, n int) {
	for i := range g.Intn(3) {
		s.Status.LoadBalancer.Ingress = append(s.Status.LoadBalancer.Ingress, g.ingress(n, i))
	}
	if g.Percent(40) {
		for range 1 + g.Intn(3) {
			s.Spec.LoadBalancerSourceRanges = append(s.Spec.LoadBalancerSourceRanges, g.sourceRange())
		}
	}
	if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal && (g.Options.Valid || g.Percent(90)) {
		s.Spec.HealthCheckNodePort = int32(31000 + n)
	}
	if g.Percent(10) {
		s.Spec.AllocateLoadBalancerNodePorts = new(false)
	}
}

func (g *Generator) ingress(n, i int) corev1.LoadBalancerIngress {
	in := corev1.LoadBalancerIngress{IP: g.externalIP(n, 10+i)}
	if g.Percent(8) {
		in = corev1.LoadBalancerIngress{Hostname: "lb.example"}
		if g.Options.Valid {
			return in
		}
	}
	if g.Percent(40) {
		in.IPMode = new(Pick(g, corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeVIP, corev1.LoadBalancerIPModeProxy))
	}
	return in
}

func (g *Generator) sourceRange() string {
	if g.Options.Bad && g.Percent(20) {
		return Pick(g, "", "x/33", "1.2.3.4", "::/200")
	}
	return Pick(g, "203.0.113.0/25", " 203.0.113.0/24", "10.0.0.0/8", "192.168.0.2/32", "0.0.0.0/0",
		"2001:db8::/32", "fd00:10::/64", "::/0", "203.0.113.7/24")
}
