package service_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/service"
)

func TestPorts(t *testing.T) {
	const tcp, udp, sctp = corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP
	tests := []struct {
		name     string
		in       []corev1.ServicePort
		want     []service.Port
		problems []string
	}{
		{
			name: "A13 two protocols",
			in:   []corev1.ServicePort{{Name: "dns-tcp", Port: 53, Protocol: tcp}, {Name: "dns", Port: 53, Protocol: udp}},
			want: []service.Port{{Name: "dns", Protocol: udp, Port: 53}, {Name: "dns-tcp", Protocol: tcp, Port: 53}},
		},
		{
			name: "A14 the protocol is part of the key",
			in:   []corev1.ServicePort{{Name: "p", Port: 53, Protocol: udp}, {Name: "p", Port: 53, Protocol: tcp}},
			want: []service.Port{{Name: "p", Protocol: tcp, Port: 53}, {Name: "p", Protocol: udp, Port: 53}},
		},
		{name: "A15 no ports"},
		{
			name: "A41 SCTP",
			in:   []corev1.ServicePort{{Name: "diameter", Port: 3868, Protocol: sctp, NodePort: 30868}},
			want: []service.Port{{Name: "diameter", Protocol: sctp, Port: 3868, NodePort: 30868}},
		},
		{name: "no protocol is TCP", in: []corev1.ServicePort{{Port: 80}}, want: []service.Port{{Protocol: tcp, Port: 80}}},
		{
			name:     "an unknown protocol",
			in:       []corev1.ServicePort{{Name: "a", Port: 80, Protocol: "tcp"}, {Name: "b", Port: 81}},
			want:     []service.Port{{Name: "b", Protocol: tcp, Port: 81}},
			problems: []string{"spec.ports[0].protocol"},
		},
		{
			name:     "numbers out of range",
			in:       []corev1.ServicePort{{Name: "a"}, {Name: "b", Port: 65536}, {Name: "c", Port: -1}, {Name: "d", Port: 65535}},
			want:     []service.Port{{Name: "d", Protocol: tcp, Port: 65535}},
			problems: []string{"spec.ports[0].port", "spec.ports[1].port", "spec.ports[2].port"},
		},
		{
			name:     "a node port out of range leaves the port",
			in:       []corev1.ServicePort{{Name: "a", Port: 80, NodePort: 65536}, {Name: "b", Port: 81, NodePort: -1}},
			want:     []service.Port{{Name: "a", Protocol: tcp, Port: 80}, {Name: "b", Protocol: tcp, Port: 81}},
			problems: []string{"spec.ports[0].nodePort", "spec.ports[1].nodePort"},
		},
		{
			name:     "the first usable one of two with one key",
			in:       []corev1.ServicePort{{Name: "a", Port: 0}, {Name: "a", Port: 81}, {Name: "a", Port: 82, Protocol: tcp}},
			want:     []service.Port{{Name: "a", Protocol: tcp, Port: 81}},
			problems: []string{"spec.ports[0].port", "spec.ports[2].name"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, problems := read(t, service.Options{}, object(ports(tt.in...)))
			checkList(t, "problems", problems, tt.problems...)
			checkDiff(t, "Ports", tt.want, s.Ports)
		})
	}
}

func TestNodePort(t *testing.T) {
	noNodePorts := func(svc *corev1.Service) {
		no := false
		svc.Spec.Type, svc.Spec.AllocateLoadBalancerNodePorts = corev1.ServiceTypeLoadBalancer, &no
	}
	t.Run("A28 set although none should be allocated", func(t *testing.T) {
		if got := mustRead(t, noNodePorts, nodePort(30080)).Ports[0].NodePort; got != 30080 {
			t.Errorf("NodePort = %d, want 30080", got)
		}
	})
	t.Run("A29 not allocated", func(t *testing.T) {
		if got := mustRead(t, noNodePorts).Ports[0].NodePort; got != 0 {
			t.Errorf("NodePort = %d, want 0", got)
		}
	})
}

func TestExternalPolicy(t *testing.T) {
	loadBalancer := ofType(corev1.ServiceTypeLoadBalancer)
	tests := []struct {
		name        string
		opts        service.Options
		changes     []change
		local       bool
		healthCheck uint16
		problems    []string
	}{
		{name: "A30 load balancer, Local", changes: []change{loadBalancer, externalLocal, healthCheck(31000)}, local: true, healthCheck: 31000},
		{name: "A31 stale health-check port", changes: []change{loadBalancer, healthCheck(31000)}},
		{name: "A32 node port, Local", changes: []change{ofType(corev1.ServiceTypeNodePort), externalLocal, healthCheck(31000)}, local: true},
		{
			name: "A33 no health-check port", changes: []change{loadBalancer, externalLocal}, local: true,
			problems: []string{"spec.healthCheckNodePort"},
		},
		{
			name: "health-check port out of range", changes: []change{loadBalancer, externalLocal, healthCheck(70000)}, local: true,
			problems: []string{"spec.healthCheckNodePort"},
		},
		{name: "A34 ClusterIP without external IPs", changes: []change{externalLocal}},
		{name: "A35 ClusterIP with external IPs", changes: []change{externalLocal, externalIPs("1.1.1.1")}, local: true},
		{
			name: "no type is ClusterIP", changes: []change{ofType(""), externalLocal, externalIPs("1.1.1.1")}, local: true,
		},
		{
			name: "A18 external IPs switched off give no policy", opts: service.Options{IgnoreExternalIPs: true},
			changes: []change{externalLocal, externalIPs("1.1.1.1")},
		},
		{name: "an unknown type", changes: []change{ofType("Mesh"), externalLocal, externalIPs("1.1.1.1")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, problems := read(t, tt.opts, object(tt.changes...))
			checkList(t, "problems", problems, tt.problems...)
			if s.ExternalLocal != tt.local || s.HealthCheckNodePort != tt.healthCheck {
				t.Errorf("ExternalLocal, HealthCheckNodePort = %v %d, want %v %d",
					s.ExternalLocal, s.HealthCheckNodePort, tt.local, tt.healthCheck)
			}
		})
	}
}

func TestPolicy(t *testing.T) {
	local := corev1.ServiceInternalTrafficPolicyLocal
	internalLocal := func(svc *corev1.Service) { svc.Spec.InternalTrafficPolicy = &local }
	proxyOnly := ingress(ipMode("5.6.7.8", corev1.LoadBalancerIPModeProxy))
	tests := []struct {
		name           string
		changes        []change
		cluster, local bool // uses these endpoints
		external, has6 bool // has a frontend besides the ClusterIP, in IPv4 and IPv6
	}{
		{name: "#21 policies and affinity absent", cluster: true},
		{name: "internal Local", changes: []change{internalLocal}, local: true},
		{name: "internal Local with node port", changes: []change{internalLocal, nodePort(30080)}, local: true, cluster: true, external: true, has6: true},
		{
			name:    "A40 external Local that nobody can reach",
			changes: []change{proxyOnly, externalLocal, healthCheck(31000)}, cluster: true,
		},
		{
			name: "external Local", changes: []change{ingress(ip("5.6.7.8")), externalLocal, healthCheck(31000)},
			cluster: true, local: true, external: true,
		},
		{name: "external IPs of one family", changes: []change{externalIPs("1.1.1.1")}, cluster: true, external: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := mustRead(t, append([]change{dualStack}, tt.changes...)...)
			p := s.Policy(s.Ports[0], corev1.IPv4Protocol)
			if p.UsesCluster() != tt.cluster || p.UsesLocal() != tt.local || p.External != tt.external {
				t.Errorf("IPv4 policy %+v: uses cluster %v, local %v, want %v, %v, external %v",
					p, p.UsesCluster(), p.UsesLocal(), tt.cluster, tt.local, tt.external)
			}
			if got := s.Policy(s.Ports[0], corev1.IPv6Protocol).External; got != tt.has6 {
				t.Errorf("IPv6 External = %v, want %v", got, tt.has6)
			}
		})
	}
	t.Run("A40 keeps its health-check port", func(t *testing.T) {
		if s := mustRead(t, proxyOnly, externalLocal, healthCheck(31000)); s.HealthCheckNodePort != 31000 {
			t.Errorf("HealthCheckNodePort = %d, want 31000", s.HealthCheckNodePort)
		}
	})
}

func TestAffinity(t *testing.T) {
	seconds := func(n int32) *corev1.SessionAffinityConfig {
		return &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &n}}
	}
	const path = "spec.sessionAffinityConfig.clientIP.timeoutSeconds"
	tests := []struct {
		name     string
		kind     corev1.ServiceAffinity
		config   *corev1.SessionAffinityConfig
		want     time.Duration
		problems []string
	}{
		{"A36 timeout", "ClientIP", seconds(60), time.Minute, nil},
		{"A37 #70 no config", "ClientIP", nil, 3 * time.Hour, nil},
		{"#70 no client IP config", "ClientIP", &corev1.SessionAffinityConfig{}, 3 * time.Hour, nil},
		{"#70 no timeout", "ClientIP", &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{}}, 3 * time.Hour, nil},
		{"#70 None ignores the config", "None", seconds(60), 0, nil},
		{"None ignores a bad config", "None", seconds(0), 0, nil},
		{"absent", "", nil, 0, nil},
		{"an unknown kind", "Cookie", seconds(60), 0, nil},
		{"shortest", "ClientIP", seconds(1), time.Second, nil},
		{"longest", "ClientIP", seconds(86400), 24 * time.Hour, nil},
		{"too short", "ClientIP", seconds(0), 3 * time.Hour, []string{path}},
		{"too long", "ClientIP", seconds(86401), 3 * time.Hour, []string{path}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, problems := read(t, service.Options{}, object(func(svc *corev1.Service) {
				svc.Spec.SessionAffinity, svc.Spec.SessionAffinityConfig = tt.kind, tt.config
			}))
			checkList(t, "problems", problems, tt.problems...)
			if s.AffinityTimeout != tt.want {
				t.Errorf("AffinityTimeout = %v, want %v", s.AffinityTimeout, tt.want)
			}
		})
	}
}
