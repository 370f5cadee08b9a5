package service_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/service"
)

func TestFamilies(t *testing.T) {
	const v4, v6 = corev1.IPv4Protocol, corev1.IPv6Protocol
	type spec struct {
		ip       string
		ips      []string
		families []corev1.IPFamily
	}
	both := []corev1.IPFamily{v4, v6}
	tests := []struct {
		name     string
		in       spec
		ip4, ip6 string // "" if not proxied
		problems []string
	}{
		{"A01 one family", spec{"10.0.0.1", nil, both[:1]}, "10.0.0.1", "", nil},
		{"A09 IPv6 first", spec{"fd00::1", []string{"fd00::1", "10.0.0.1"}, []corev1.IPFamily{v6, v4}}, "10.0.0.1", "fd00::1", nil},
		{"fault F30 A10 family without an address", spec{"10.0.0.1", []string{"10.0.0.1"}, both}, "10.0.0.1", "", []string{"spec.clusterIPs[1]"}},
		{"fault F30 family with a blank address", spec{"10.0.0.1", []string{"10.0.0.1", " "}, both}, "10.0.0.1", "", []string{"spec.clusterIPs[1]"}},
		{"A11 no families, IPv6 address", spec{"fd00::1", nil, nil}, "", "fd00::1", nil},
		{"fault F30 A12 no families, several addresses", spec{"10.0.0.1", []string{"10.0.0.1", "fd00::1"}, nil}, "10.0.0.1", "", []string{"spec.clusterIPs[1]"}},
		{"no families, one address in both fields", spec{"10.0.0.1", []string{"10.0.0.1"}, nil}, "10.0.0.1", "", nil},
		{"fault F30 an address beyond the families", spec{"10.0.0.1", []string{"10.0.0.1", "fd00::1"}, both[:1]}, "10.0.0.1", "", []string{"spec.clusterIPs[1]"}},
		{"fault F30 a family twice", spec{"10.0.0.1", []string{"10.0.0.1", "10.0.0.2"}, []corev1.IPFamily{v4, v4}}, "10.0.0.1", "", []string{"spec.ipFamilies[1]"}},
		{"fault F30 an unknown family", spec{"10.0.0.1", []string{"10.0.0.1", "fd00::1"}, []corev1.IPFamily{"IPv9", v6}}, "", "fd00::1", []string{"spec.ipFamilies[0]"}},
		{"fault F30 only an unknown family", spec{"10.0.0.1", nil, []corev1.IPFamily{"ipv4"}}, "", "", []string{"spec.ipFamilies[0]"}},
		{"fault F30 an unknown family and no addresses", spec{"10.0.0.1", nil, []corev1.IPFamily{v4, "IPv9"}}, "10.0.0.1", "", []string{"spec.ipFamilies[1]"}},
		{"fault F30 A03 no address", spec{"", nil, both[:1]}, "", "", []string{"spec.clusterIP"}},
		{"fault F30 a blank address", spec{" ", []string{" "}, both[:1]}, "", "", []string{"spec.clusterIP"}},
		{"fault F30 the newer field only", spec{"", []string{"10.0.0.1"}, both[:1]}, "", "", []string{"spec.clusterIP"}},
		{"fault F30 two fields that differ", spec{"10.0.0.2", []string{"10.0.0.1"}, both[:1]}, "10.0.0.1", "", []string{"spec.clusterIPs[0]"}},
		{"fault F30 None among addresses", spec{"10.0.0.1", []string{"10.0.0.1", "None"}, both}, "10.0.0.1", "", []string{"spec.clusterIPs[1]"}},
		{"fault F30 a loopback address", spec{"::ffff:127.0.0.1", nil, nil}, "", "", []string{"spec.clusterIP"}},
		{"fault F30 one of two is unspecified", spec{"10.0.0.1", []string{"10.0.0.1", "::"}, both}, "10.0.0.1", "", []string{"spec.clusterIPs[1]"}},
		{"a link-local address, of a range of link-local ones", spec{"169.254.10.1", nil, nil}, "169.254.10.1", "", nil},
		{"leading zeros are decimal", spec{"010.000.0.010", nil, nil}, "10.0.0.10", "", nil},
		{"mapped into IPv6", spec{"::ffff:10.0.0.1", nil, nil}, "10.0.0.1", "", nil},
		{"no address", spec{"bogus", nil, nil}, "", "", []string{"spec.clusterIP"}},
		{"one of two no address", spec{"10.0.0.1", []string{"10.0.0.1", "bogus"}, both}, "10.0.0.1", "", []string{"spec.clusterIPs[1]"}},
		{
			"families crossed",
			spec{"10.0.0.1", []string{"10.0.0.1", "fd00::1"}, []corev1.IPFamily{v6, v4}},
			"", "",
			[]string{"spec.clusterIPs[0]", "spec.clusterIPs[1]"},
		},
		{"a zone is no part of an address", spec{"fe80::1%eth0", nil, nil}, "", "", []string{"spec.clusterIP"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, problems := read(t, service.Options{}, object(func(svc *corev1.Service) {
				svc.Spec.ClusterIP, svc.Spec.ClusterIPs, svc.Spec.IPFamilies = tt.in.ip, tt.in.ips, tt.in.families
			}))
			checkList(t, "problems", problems, tt.problems...)
			var want []corev1.IPFamily
			if tt.ip4 != "" {
				want = append(want, v4)
			}
			if tt.ip6 != "" {
				want = append(want, v6)
			}
			if s == nil {
				s = &service.Service{}
			}
			checkDiff(t, "Families", want, s.Families())
			for f, ip := range map[corev1.IPFamily]string{v4: tt.ip4, v6: tt.ip6} {
				if got := s.Addresses(f).ClusterIP; got.IsValid() != (ip != "") || ip != "" && got.String() != ip {
					t.Errorf("ClusterIP of %s = %v, want %q", f, got, ip)
				}
			}
		})
	}
}

func TestNotProxied(t *testing.T) {
	tests := []struct {
		name   string
		change change
	}{
		{"A02 headless", clusterIP("None")},
		{"A04 ExternalName without a ClusterIP", func(svc *corev1.Service) {
			clusterIP("")(svc)
			ofType(corev1.ServiceTypeExternalName)(svc)
		}},
		{"no ClusterIP, for another proxy", func(svc *corev1.Service) {
			clusterIP("")(svc)
			label("service.kubernetes.io/service-proxy-name", "other")(svc)
		}},
		{"A04 ExternalName with a ClusterIP", ofType(corev1.ServiceTypeExternalName)},
		{"A05 proxy name, empty value", label("service.kubernetes.io/service-proxy-name", "")},
		{"A08 headless label", label("service.kubernetes.io/headless", "")},
		{"A08 headless label with a value", label("service.kubernetes.io/headless", "no")},
		{"#69 headless with external IPs", func(svc *corev1.Service) {
			clusterIP("None")(svc)
			externalIPs("192.0.2.1", "bogus")(svc)
		}},
		{"#69 ExternalName with status", func(svc *corev1.Service) {
			ingress(ip("192.0.2.1"))(svc)
			svc.Spec.Type = corev1.ServiceTypeExternalName
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, problems := read(t, service.Options{}, object(tt.change))
			if s != nil {
				t.Errorf("Service = %+v, want none", s)
			}
			checkList(t, "problems", problems)
		})
	}
}

func TestProxyName(t *testing.T) {
	const key = "service.kubernetes.io/service-proxy-name"
	tests := []struct {
		name, own string
		obj       *corev1.Service
		want      bool
	}{
		{"#31 default proxy, no label", "", object(), true},
		{"#31 default proxy, label", "", object(label(key, "mine")), false},
		{"#31 own name, no label", "mine", object(), false},
		{"#31 own name, equal label", "mine", object(label(key, "mine")), true},
		{"#31 own name, other label", "mine", object(label(key, "other")), false},
		{"#31 own name, empty label", "mine", object(label(key, "")), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if s, _ := read(t, service.Options{ProxyName: tt.own}, tt.obj); (s != nil) != tt.want {
				t.Errorf("Service = %v, want proxied %v", s, tt.want)
			}
		})
	}
}
