package main

import (
	"fmt"
	"strings"
	"testing"
)

// problems lists problems as "object field", and fails if one has no text.
func problems(a *answer) []string {
	var list []string
	for _, p := range a.Problems {
		text := p.Object + " " + p.Field
		if p.Error == "" {
			text += " WITHOUT TEXT"
		}
		list = append(list, text)
	}
	return list
}

func TestProblems(t *testing.T) {
	endpointSlice := func(metadata, rest string) string {
		return fmt.Sprintf("{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: {name: s, %s}, addressType: IPv4, %s}", metadata, rest)
	}
	const label = "labels: {kubernetes.io/service-name: web}"
	tests := []struct {
		name    string
		objects []string
		want    []string
	}{
		{"A16 external IP", []string{webYAML(`, externalIPs: [1.2.3.4, bogus]`)}, []string{"Service default/web spec.externalIPs[1]"}},
		{"ClusterIP", []string{serviceYAML("default/web", "clusterIP: bogus, ipFamilies: [IPv4], ports: [{name: p, port: 80}]")}, []string{"Service default/web spec.clusterIPs[0]"}},
		{"ingress IP", []string{webYAML(", type: LoadBalancer", "bogus")}, []string{"Service default/web status.loadBalancer.ingress[0].ip"}},
		{"source range", []string{webYAML(`, type: LoadBalancer, loadBalancerSourceRanges: [10.0.0.0/8, x/33]`)}, []string{"Service default/web spec.loadBalancerSourceRanges[1]"}},
		{"A22 status address on another type", []string{webYAML("", "203.0.113.1")}, []string{"Service default/web status.loadBalancer.ingress[0].ip"}},
		{"A33 health-check port 0", []string{webYAML(", type: LoadBalancer, externalTrafficPolicy: Local")}, []string{"Service default/web spec.healthCheckNodePort"}},
		{"B24 slice without label", []string{endpointSlice("labels: {}", "ports: []")}, []string{"EndpointSlice default/s metadata.labels[kubernetes.io/service-name]"}},
		{"B13 B14 port nil and 0", []string{endpointSlice(label, "ports: [{name: a}, {name: b, port: 0}]")}, []string{"EndpointSlice default/s ports[0].port", "EndpointSlice default/s ports[1].port"}},
		{"B20 address of another family", []string{endpointSlice(label, `ports: [{port: 80}], endpoints: [{addresses: [10.0.0.1]}, {addresses: ["fd00::1"]}]`)}, []string{"EndpointSlice default/s endpoints[1].addresses[0]"}},
		{"endpoint address", []string{endpointSlice(label, "ports: [{port: 80}], endpoints: [{addresses: [bogus]}]")}, []string{"EndpointSlice default/s endpoints[0].addresses[0]"}},
		{"node address", []string{"{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {addresses: [{type: InternalIP, address: bogus}]}}"}, []string{"Node n1 status.addresses[0].address"}},
		{"ServiceCIDR", []string{"{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: c}, spec: {cidrs: [10.96.0.0/12, x/33]}}"}, []string{"ServiceCIDR c spec.cidrs[1]"}},
		{
			"order by bytes",
			[]string{
				serviceYAML("default/b", "clusterIP: 10.96.0.2, externalIPs: [x, x, x, x, x, x, x, x, x, x, x], ports: [{port: 80}]"),
				serviceYAML("default/a", "clusterIP: 10.96.0.1, externalIPs: [x], ports: [{port: 80}]"),
				endpointSlice("", "ports: []"),
			},
			append([]string{"EndpointSlice default/s metadata.labels[kubernetes.io/service-name]", "Service default/a spec.externalIPs[0]", "Service default/b spec.externalIPs[0]", "Service default/b spec.externalIPs[10]"},
				numbered("Service default/b spec.externalIPs[%d]", 1, 9)...),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			equal(t, "problems", problems(explain(t, tt.objects)), tt.want)
		})
	}
}

func numbered(format string, from, to int) (list []string) {
	for i := from; i <= to; i++ {
		list = append(list, fmt.Sprintf(format, i))
	}
	return list
}

func TestNoProblems(t *testing.T) {
	long := strings.Repeat("n", 250)
	tests := []struct{ name, object string }{
		{"A20 A21 hostname and ipMode Proxy", strings.Replace(webYAML(", type: LoadBalancer"), "ingress: []", "ingress: [{hostname: lb.example}, {ip: 203.0.113.1, ipMode: Proxy}]", 1)},
		{"A16 A26 other family", webYAML(`, type: LoadBalancer, externalIPs: ["2001:db8::1"], loadBalancerSourceRanges: ["2001:db8::/32"]`, "2001:db8::2")},
		{"A16 A27 blank entries", webYAML(`, type: LoadBalancer, externalIPs: [" ", ""], loadBalancerSourceRanges: [" "]`)},
		{"B19 FQDN slice", strings.Replace(sliceYAML("default/web", "pod.example"), "IPv4", "FQDN", 1)},
		{"E44 long names", serviceYAML("default/"+long, "clusterIP: 10.96.0.9, ports: [{name: "+long+", port: 80}]")},
		{"A31 stale health-check port", webYAML(", type: LoadBalancer, healthCheckNodePort: 31000")},
		{"B18 no address", strings.Replace(sliceYAML("default/web", "10.0.0.1"), `["10.0.0.1"]`, "[]", 1)},
		{"A02 headless", serviceYAML("default/headless", "clusterIP: None, ports: [{name: p, port: 80}]")},
		{"A17 leading zeros", webYAML(", externalIPs: [010.1.2.3]")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			equal(t, "problems", problems(explain(t, []string{tt.object})), nil)
		})
	}
}

func TestRestWorks(t *testing.T) {
	a := explain(t, []string{
		webYAML(`, type: LoadBalancer, externalIPs: [bogus, 010.1.2.3], loadBalancerSourceRanges: [x/33]`, "bogus", "203.0.113.1"),
		sliceYAML("default/web", "bogus", "010.244.2.5"),
	})
	equal(t, "frontends", frontends(a), []string{
		"ClusterIP 10.96.0.10:80 cluster cluster cluster",
		"ExternalIP 10.1.2.3:80 cluster+masq cluster+masq cluster+masq",
		"LoadBalancerIP 203.0.113.1:80 cluster+masq cluster+masq cluster+masq",
	})
	equal(t, "cluster pool", a.Ports[0].Cluster, []string{"10.244.2.5:8080"})
	equal(t, "problems", problems(a), []string{
		"EndpointSlice default/web-ipv4 endpoints[0].addresses[0]",
		"Service default/web spec.externalIPs[0]",
		"Service default/web spec.loadBalancerSourceRanges[0]",
		"Service default/web status.loadBalancer.ingress[0].ip",
	})
}
