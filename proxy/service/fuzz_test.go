package service_test

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/service"
)

// FuzzConvert gives a tracker Services with arbitrary fields. Lists are strings
// whose items are separated by "|".
func FuzzConvert(f *testing.F) {
	f.Add("10.0.0.1", "10.0.0.1|fd00::1", "IPv4|IPv6", "010.1.2.3|::ffff:1.2.3.4|bogus", "10.1.2.3/8|::ffff:10.0.0.0/104|x/33", "a/TCP|a/TCP|b/UDP", int32(80), int32(31000), byte(0xff))
	f.Add("fd00::1", "", "", "2001:db8::1| |2001:db8::1", "", "/|/SCTP", int32(65535), int32(0), byte(5))
	f.Add("None", "None", "IPv4", "", "::/0", "", int32(-1), int32(-1), byte(2))
	f.Fuzz(func(t *testing.T, ip, ips, families, addresses, ranges, portList string, number, timeout int32, bits byte) {
		obj := object(clusterIP(ip), externalIPs(strings.Split(addresses, "|")...), sourceRanges(strings.Split(ranges, "|")...))
		obj.Spec.ClusterIPs = strings.Split(ips, "|")
		obj.Spec.IPFamilies = nil
		for family := range strings.SplitSeq(families, "|") {
			if family != "" {
				obj.Spec.IPFamilies = append(obj.Spec.IPFamilies, corev1.IPFamily(family))
			}
		}
		obj.Spec.Ports = nil
		for i, p := range strings.Split(portList, "|") {
			name, protocol, _ := strings.Cut(p, "/")
			obj.Spec.Ports = append(obj.Spec.Ports, corev1.ServicePort{
				Name: name, Protocol: corev1.Protocol(protocol), Port: number + int32(i), NodePort: number * int32(i),
			})
		}
		spread(obj, bits, number, timeout)

		in := obj.DeepCopy()
		tracker := service.NewServiceChangeTracker(service.Options{})
		dirty, problems := tracker.Set(obj)
		checkDiff(t, "object after Set", in, obj)
		s := tracker.Pending().Services[web]
		if dirty != (s != nil) {
			t.Fatalf("Set = %v, Service %v", dirty, s)
		}
		for _, p := range problems {
			if p.Field == "" || p.Detail == "" && p.Type != "FieldValueDuplicate" && p.Type != "FieldValueNotSupported" {
				t.Errorf("problem %+v says too little", p)
			}
		}
		if s != nil {
			checkInvariants(t, s, obj)
		}
	})
}

// spread sets the remaining fields from bits and numbers.
func spread(obj *corev1.Service, bits byte, number, timeout int32) {
	types := []corev1.ServiceType{"ClusterIP", "NodePort", "LoadBalancer", "ExternalName", "", "LoadBalancer", "LoadBalancer", "?"}
	obj.Spec.Type = types[bits&7]
	if bits&8 != 0 {
		externalLocal(obj)
		obj.Spec.HealthCheckNodePort = number
	}
	if bits&16 != 0 {
		obj.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		obj.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: &timeout}}
	}
	mode := corev1.LoadBalancerIPModeProxy
	if bits&32 != 0 {
		mode = corev1.LoadBalancerIPModeVIP
	}
	for _, ip := range obj.Spec.ExternalIPs {
		obj.Status.LoadBalancer.Ingress = append(obj.Status.LoadBalancer.Ingress, ipMode(ip, mode))
	}
}

func checkInvariants(t *testing.T, s *service.Service, obj *corev1.Service) {
	t.Helper()
	if len(s.Families()) == 0 {
		t.Error("a Service without families is proxied")
	}
	checkAddresses(t, &s.IPv4, netip.Addr.Is4)
	checkAddresses(t, &s.IPv6, func(a netip.Addr) bool { return a.Is6() && !a.Is4In6() })
	for i, p := range s.Ports {
		if p.Port == 0 || !slices.Contains([]corev1.Protocol{"TCP", "UDP", "SCTP"}, p.Protocol) {
			t.Errorf("port %+v is not usable", p)
		}
		if i > 0 && cmp.Or(cmp.Compare(s.Ports[i-1].Name, p.Name), cmp.Compare(s.Ports[i-1].Protocol, p.Protocol)) >= 0 {
			t.Errorf("ports %+v are not sorted, or one is there twice", s.Ports)
		}
	}
	if a := s.AffinityTimeout; a != 0 && (a < time.Second || a > 24*time.Hour) {
		t.Errorf("AffinityTimeout = %v", a)
	}
	if s.HealthCheckNodePort != 0 && (obj.Spec.Type != corev1.ServiceTypeLoadBalancer || !s.ExternalLocal) {
		t.Errorf("health-check port of type %q, external policy Local %v", obj.Spec.Type, s.ExternalLocal)
	}
}

// checkAddresses checks one family; of tells its canonical addresses.
func checkAddresses(t *testing.T, a *service.Addresses, of func(netip.Addr) bool) {
	t.Helper()
	all := slices.Concat(a.ExternalIPs, a.LoadBalancerIPs)
	if a.ClusterIP.IsValid() {
		all = append(all, a.ClusterIP)
	} else if len(all) > 0 || len(a.SourceRanges) > 0 || a.SourceRangesInvalid {
		t.Errorf("%+v of a family that is not proxied", a)
	}
	for _, ip := range all {
		if !of(ip) || ip.Zone() != "" {
			t.Errorf("address %v is not canonical or of another family", ip)
		}
	}
	for _, p := range a.SourceRanges {
		if !p.IsValid() || p != p.Masked() || !of(p.Addr()) {
			t.Errorf("range %v is not canonical or of another family", p)
		}
	}
	if twice(a.ExternalIPs) || twice(a.LoadBalancerIPs) || twice(a.SourceRanges) {
		t.Errorf("%+v lists something twice", a)
	}
	if a.SourceRangesInvalid && len(a.SourceRanges) > 0 {
		t.Error("SourceRangesInvalid although there is a usable one")
	}
}

func twice[T comparable](list []T) bool {
	for i, v := range list {
		if slices.Contains(list[:i], v) {
			return true
		}
	}
	return false
}
