package service_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/service"
)

func TestAddresses(t *testing.T) {
	proxy, vip := corev1.LoadBalancerIPModeProxy, corev1.LoadBalancerIPModeVIP
	host := corev1.LoadBalancerIngress{Hostname: "lb.example.net"}
	tests := []struct {
		name     string
		changes  []change
		ext4     []string
		ext6     []string
		lb4      []string
		lb6      []string
		problems []string
	}{
		{
			name:     "A16 external IPs of both families",
			changes:  []change{dualStack, externalIPs("1.2.3.4", "2001:db8::1", " ", "bogus")},
			ext4:     []string{"1.2.3.4"},
			ext6:     []string{"2001:db8::1"},
			problems: []string{"spec.externalIPs[3]"},
		},
		{name: "A17 leading zeros", changes: []change{externalIPs("010.1.2.3")}, ext4: []string{"10.1.2.3"}},
		{name: "external IPs mapped into IPv6", changes: []change{externalIPs("::ffff:1.2.3.4")}, ext4: []string{"1.2.3.4"}},
		{
			name:    "external IPs keep their order, without doubles",
			changes: []change{externalIPs("2.0.0.2", "1.0.0.1", "2.0.0.2", "002.0.0.2")},
			ext4:    []string{"2.0.0.2", "1.0.0.1"},
		},
		{
			name:     "fault F06 status address that is the ClusterIP",
			changes:  []change{ingress(ip("10.96.0.50"), ip("5.6.7.8")), dualStack},
			lb4:      []string{"5.6.7.8"},
			problems: []string{"status.loadBalancer.ingress[0].ip"},
		},
		{
			name:     "fault F06 external IP that is the ClusterIP",
			changes:  []change{externalIPs("1.2.3.4", "10.96.0.50")},
			ext4:     []string{"1.2.3.4"},
			problems: []string{"spec.externalIPs[1]"},
		},
		{name: "A19 status address", changes: []change{ingress(ip("5.6.7.8"))}, lb4: []string{"5.6.7.8"}},
		{name: "A20 mode Proxy", changes: []change{ingress(ipMode("5.6.7.8", proxy))}},
		{name: "A21 mode VIP and a hostname", changes: []change{ingress(ipMode("5.6.7.8", vip), host)}, lb4: []string{"5.6.7.8"}},
		{name: "an unknown mode", changes: []change{ingress(ipMode("5.6.7.8", "Tunnel"))}},
		{
			// design: another decision than kube-proxy's, which takes the address.
			name:     "A22 #69 left-over status of type ClusterIP",
			changes:  []change{ingress(ip("5.6.7.8"), host, ip(" "), ipMode("5.6.7.9", proxy)), ofType(corev1.ServiceTypeClusterIP)},
			problems: []string{"status.loadBalancer.ingress[0].ip"},
		},
		{name: "A23 status of a family that is not proxied", changes: []change{ingress(ip("5.6.7.8"), ip("2001:db8::8"))}, lb4: []string{"5.6.7.8"}},
		{
			name:    "#15 status without IP, of the other family",
			changes: []change{ingress(host, ip(""), ip("2001:db8:9::1"), ip("203.0.113.9")), externalIPs("", "2001:db8:9::2", "203.0.113.10")},
			ext4:    []string{"203.0.113.10"},
			lb4:     []string{"203.0.113.9"},
		},
		{
			name:     "#15 status that is no address",
			changes:  []change{ingress(ip("bogus"), ip("203.0.113.9"))},
			lb4:      []string{"203.0.113.9"},
			problems: []string{"status.loadBalancer.ingress[0].ip"},
		},
		{
			name: "#16 addresses by mode",
			changes: []change{
				dualStack,
				ingress(ipMode("203.0.113.7", proxy), ipMode("203.0.113.8", vip), ip("203.0.113.9"), ipMode("2001:db8::7", proxy), ip("2001:db8::9")),
			},
			lb4: []string{"203.0.113.8", "203.0.113.9"},
			lb6: []string{"2001:db8::9"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, problems := read(t, service.Options{}, object(tt.changes...))
			checkList(t, "problems", problems, tt.problems...)
			checkList(t, "IPv4.ExternalIPs", text(s.IPv4.ExternalIPs), tt.ext4...)
			checkList(t, "IPv6.ExternalIPs", text(s.IPv6.ExternalIPs), tt.ext6...)
			checkList(t, "IPv4.LoadBalancerIPs", text(s.IPv4.LoadBalancerIPs), tt.lb4...)
			checkList(t, "IPv6.LoadBalancerIPs", text(s.IPv6.LoadBalancerIPs), tt.lb6...)
		})
	}
	specials := []string{
		"127.0.0.1", "127.255.255.255", "0.0.0.0", "224.0.0.1", "169.254.0.1", "000.0.0.0", "::ffff:127.0.0.1", "::ffff:224.0.0.251",
		"::1", "::", "fe80::1", "ff02::1", "::ffff:0:0",
	}
	for _, a := range specials {
		t.Run("fault F30 special "+a, func(t *testing.T) {
			s, problems := read(t, service.Options{}, object(dualStack, externalIPs("1.2.3.4", a), ingress(ip(a), ip("5.6.7.8"))))
			checkList(t, "problems", problems, "spec.externalIPs[1]", "status.loadBalancer.ingress[0].ip")
			checkList(t, "IPv4.ExternalIPs", text(s.IPv4.ExternalIPs), "1.2.3.4")
			checkList(t, "IPv4.LoadBalancerIPs", text(s.IPv4.LoadBalancerIPs), "5.6.7.8")
			checkList(t, "IPv6.ExternalIPs and LoadBalancerIPs", text(append(s.IPv6.ExternalIPs, s.IPv6.LoadBalancerIPs...)))
		})
	}
	t.Run("A18 external IPs switched off", func(t *testing.T) {
		s, problems := read(t, service.Options{IgnoreExternalIPs: true}, object(externalIPs("1.2.3.4", "bogus")))
		checkList(t, "problems", problems)
		checkList(t, "ExternalIPs", text(s.IPv4.ExternalIPs))
	})
}

func TestSourceRanges(t *testing.T) {
	bad := func(i string) []string { return []string{"spec.loadBalancerSourceRanges[" + i + "]"} }
	tests := []struct {
		name               string
		in                 []string
		want4, want6       []string
		invalid4, invalid6 bool
		problems           []string
	}{
		{name: "A24 spaces", in: []string{" 10.0.0.0/8 "}, want4: []string{"10.0.0.0/8"}},
		{name: "A25 host bits", in: []string{"10.1.2.3/8"}, want4: []string{"10.0.0.0/8"}},
		{name: "A26 other family only", in: []string{"2001:db8::/32"}, want6: []string{"2001:db8::/32"}},
		{name: "A27 blank and invalid", in: []string{"", "x/33"}, invalid4: true, invalid6: true, problems: bad("1")},
		{name: "blank only", in: []string{"", " "}},
		{name: "invalid and other family", in: []string{"x", "2001:db8::/32"}, want6: []string{"2001:db8::/32"}, invalid4: true, problems: bad("0")},
		{name: "an address is no range", in: []string{"10.0.0.1"}, invalid4: true, invalid6: true, problems: bad("0")},
		{name: "leading zeros are decimal", in: []string{"010.0.0.0/8"}, want4: []string{"10.0.0.0/8"}},
		{name: "mapped into IPv6", in: []string{"::ffff:10.1.2.3/104", "::/0"}, want4: []string{"10.0.0.0/8"}, want6: []string{"::/0"}},
		{name: "order kept, doubles removed", in: []string{"10.1.0.0/16", "10.0.0.0/16", "10.1.2.3/16"}, want4: []string{"10.1.0.0/16", "10.0.0.0/16"}},
		{
			name:  "#14 spaces and mixed families",
			in:    []string{" 198.51.100.0/24", "203.0.113.0/25 ", "2001:db8:5::/64", "\t10.0.0.0/8\n"},
			want4: []string{"198.51.100.0/24", "203.0.113.0/25", "10.0.0.0/8"}, want6: []string{"2001:db8:5::/64"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, problems := read(t, service.Options{}, object(dualStack, ingress(ip("5.6.7.8")), sourceRanges(tt.in...)))
			checkList(t, "problems", problems, tt.problems...)
			checkList(t, "IPv4.SourceRanges", text(s.IPv4.SourceRanges), tt.want4...)
			checkList(t, "IPv6.SourceRanges", text(s.IPv6.SourceRanges), tt.want6...)
			if s.IPv4.SourceRangesInvalid != tt.invalid4 || s.IPv6.SourceRangesInvalid != tt.invalid6 {
				t.Errorf("SourceRangesInvalid = %v %v, want %v %v",
					s.IPv4.SourceRangesInvalid, s.IPv6.SourceRangesInvalid, tt.invalid4, tt.invalid6)
			}
		})
	}
	t.Run("without load-balancer IPs they are checked but not used", func(t *testing.T) {
		s, problems := read(t, service.Options{}, object(sourceRanges("10.0.0.0/8", "x")))
		checkList(t, "problems", problems, bad("1")...)
		checkList(t, "SourceRanges", text(s.IPv4.SourceRanges))
		if s.IPv4.SourceRangesInvalid {
			t.Error("SourceRangesInvalid is set")
		}
	})
	t.Run("a family that is not proxied has none", func(t *testing.T) {
		s := mustRead(t, ingress(ip("5.6.7.8")), sourceRanges("2001:db8::/32"))
		checkDiff(t, "IPv6", service.Addresses{}, s.IPv6)
	})
}
