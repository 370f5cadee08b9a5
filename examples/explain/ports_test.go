package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestPortOrder(t *testing.T) {
	const spec = "clusterIP: 10.96.0.%d, ports: [{name: p, port: 80}, {name: b, port: 53, protocol: UDP}, {name: b, port: 53}]"
	a := explain(t, []string{
		serviceYAML("a/x", fmt.Sprintf(spec, 1)),
		serviceYAML("a-b/x", fmt.Sprintf(spec, 2)),
		serviceYAML("a/x-y", "clusterIP: 10.96.0.3, clusterIPs: [10.96.0.3, \"fd00:96::3\"], ipFamilies: [IPv4, IPv6], ports: [{port: 80, protocol: SCTP}]"),
	})
	// "-" comes before "/" and before ":" in ASCII.
	equal(t, "ports", names(a), []string{
		"a-b/x:b TCP IPv4", "a-b/x:b UDP IPv4", "a-b/x:p TCP IPv4",
		"a/x-y SCTP IPv4", "a/x-y SCTP IPv6",
		"a/x:b TCP IPv4", "a/x:b UDP IPv4", "a/x:p TCP IPv4",
	})
}

func TestFrontendOrder(t *testing.T) {
	a := explain(t, []string{
		serviceYAML("default/web", `type: LoadBalancer, clusterIP: 10.96.0.10, externalIPs: [192.0.2.9, 192.0.2.10], ports: [{name: p, port: 80, nodePort: 30080}]`,
			"203.0.113.9", "203.0.113.10"),
		sliceYAML("default/web", "10.244.2.9", "10.244.2.10"),
	}, "-node-ip", "10.0.0.1")
	const pools = " cluster+masq cluster+masq cluster+masq"
	equal(t, "frontends", frontends(a), []string{
		"ClusterIP 10.96.0.10:80 cluster cluster cluster",
		"ExternalIP 192.0.2.10:80" + pools, "ExternalIP 192.0.2.9:80" + pools,
		"LoadBalancerIP 203.0.113.10:80" + pools, "LoadBalancerIP 203.0.113.9:80" + pools,
		"NodePort :30080" + pools,
	})
	equal(t, "B33 cluster pool", a.Ports[0].Cluster, []string{"10.244.2.10:8080", "10.244.2.9:8080"})
	equal(t, "local pool", a.Ports[0].Local, []string{})
}

// TestDecisionTable has one row per line of the table in package plan.
func TestDecisionTable(t *testing.T) {
	local, remote, both := []string{"10.244.1.5@n1"}, []string{"10.244.2.5@n2"}, []string{"10.244.1.5@n1", "10.244.2.5@n2"}
	const pods = "-pod-cidr=10.244.1.0/24"
	tests := []struct {
		name, internal, external string
		eps                      []string
		args                     []string
		clusterIP, loadBalancer  string // actions of pod, node, outside
	}{
		{"Cluster", "Cluster", "Cluster", both, []string{pods}, "cluster cluster+masq cluster+masq", "cluster+masq cluster+masq cluster+masq"},
		{"Cluster without a detector", "Cluster", "Cluster", both, nil, "cluster cluster cluster", "cluster+masq cluster+masq cluster+masq"},
		{"pods told apart by interface", "Cluster", "Cluster", both, []string{"-pod-interface=veth*"}, "cluster cluster+masq cluster+masq", "cluster+masq cluster+masq cluster+masq"},
		{"pods of the other family do not count", "Cluster", "Cluster", both, []string{"-pod-cidr=fd00::/64"}, "cluster cluster cluster", "cluster+masq cluster+masq cluster+masq"},
		{"nor do they for external Local", "Cluster", "Local", both, []string{"-pod-cidr=fd00::/64"}, "cluster cluster cluster", "local cluster+masq local"},
		{"E16 E17 masquerade all", "Cluster", "Cluster", both, []string{pods, "-masquerade-all"}, "cluster+masq cluster+masq cluster+masq", "cluster+masq cluster+masq cluster+masq"},
		{"internal Local", "Local", "Cluster", both, []string{pods}, "local local+masq local+masq", "cluster+masq cluster+masq cluster+masq"},
		{"D52 internal Local, none local", "Local", "Cluster", remote, []string{pods}, "drop drop drop", "cluster+masq cluster+masq cluster+masq"},
		{"D49 external Local", "Cluster", "Local", both, []string{pods}, "cluster cluster+masq cluster+masq", "cluster cluster+masq local"},
		{"D50 external Local, none local", "Cluster", "Local", remote, []string{pods}, "cluster cluster+masq cluster+masq", "cluster cluster+masq drop"},
		{"D54 the same without a detector", "Cluster", "Local", remote, nil, "cluster cluster cluster", "drop cluster+masq drop"},
		{"external Local without a detector", "Cluster", "Local", both, nil, "cluster cluster cluster", "local cluster+masq local"},
		{"D51 both Local, none local", "Local", "Local", remote, []string{pods}, "drop drop drop", "cluster cluster+masq drop"},
		{"both Local, only local", "Local", "Local", local, []string{pods}, "local local+masq local+masq", "cluster cluster+masq local"},
		{"D47 D55 no endpoint", "Local", "Local", nil, []string{pods}, "reject reject reject", "reject reject reject"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := explain(t, []string{
				webYAML(fmt.Sprintf(", type: LoadBalancer, internalTrafficPolicy: %s, externalTrafficPolicy: %s, healthCheckNodePort: 31000", tt.internal, tt.external), "203.0.113.1"),
				sliceYAML("default/web", tt.eps...),
			}, tt.args...)
			equal(t, "frontends", frontends(a), []string{
				"ClusterIP 10.96.0.10:80 " + tt.clusterIP, "LoadBalancerIP 203.0.113.1:80 " + tt.loadBalancer,
			})
		})
	}
}

func TestAllow(t *testing.T) {
	tests := []struct {
		name, ranges string
		args         []string
		want         []string // nil: open
	}{
		{"no ranges", "", nil, nil},
		{"A24 A25 canonical", `" 010.1.2.3/8 ", 9.9.9.9/32`, nil, []string{"10.0.0.0/8", "9.9.9.9/32"}},
		{"E12 range with a node address", "192.168.0.0/24", nil, []string{"192.168.0.0/24", "203.0.113.1/32"}},
		{"A26 only the other family", `"2001:db8::/32"`, []string{"-deny-invalid-ranges"}, nil},
		{"A27 all invalid", `"", x/33`, nil, nil},
		{"all invalid and denied", `"", x/33`, []string{"-deny-invalid-ranges"}, []string{}},
		{"some invalid", "x/33, 10.0.0.0/8", []string{"-deny-invalid-ranges"}, []string{"10.0.0.0/8"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := explain(t, []string{webYAML(", type: LoadBalancer, externalIPs: [192.0.2.1], loadBalancerSourceRanges: ["+tt.ranges+"]", "203.0.113.1")},
				append(tt.args, "-node-ip", "192.168.0.2")...)
			for _, f := range a.Ports[0].Frontends {
				want := tt.want
				if f.Kind != "LoadBalancerIP" {
					want = nil
				}
				if !slices.Equal(f.Allow, want) || (f.Allow == nil) != (want == nil) {
					t.Errorf("%s: allow %q, want %q", f.Kind, f.Allow, want)
				}
			}
		})
	}
}

func TestPortFields(t *testing.T) {
	t.Run("A36 A30 affinity and health check", func(t *testing.T) {
		a := explain(t, []string{webYAML(`, type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000,
			sessionAffinity: ClientIP, sessionAffinityConfig: {clientIP: {timeoutSeconds: 60}}`)})
		if p := a.Ports[0]; p.AffinitySeconds != 60 || p.HealthCheckNodePort != 31000 {
			t.Errorf("affinity %d, health check %d; want 60, 31000", p.AffinitySeconds, p.HealthCheckNodePort)
		}
	})
	t.Run("A37 default affinity", func(t *testing.T) {
		if got := explain(t, []string{webYAML(", sessionAffinity: ClientIP")}).Ports[0].AffinitySeconds; got != 10800 {
			t.Errorf("affinity %d, want 10800", got)
		}
	})
	hinted := func(zones ...string) []string {
		var eps []string
		for i, z := range zones {
			eps = append(eps, fmt.Sprintf("{addresses: [10.244.2.%d], hints: {forZones: [%s]}}", i, z))
		}
		return []string{webYAML(""), strings.Replace(sliceYAML("default/web"), "endpoints: []", "endpoints: ["+strings.Join(eps, ", ")+"]", 1)}
	}
	t.Run("D22 zone hints", func(t *testing.T) {
		p := explain(t, hinted("{name: za}", "{name: zb}")).Ports[0]
		equal(t, "cluster pool", p.Cluster, []string{"10.244.2.0:8080"})
		if p.Topology.Mode != "zone" {
			t.Errorf("mode %q, want zone", p.Topology.Mode)
		}
	})
	t.Run("D23 hints not used", func(t *testing.T) {
		p := explain(t, hinted("{name: za}", "")).Ports[0]
		equal(t, "cluster pool", p.Cluster, []string{"10.244.2.0:8080", "10.244.2.1:8080"})
		if p.Topology.Mode != "" || p.Topology.Reason == "" {
			t.Errorf("topology %+v, want no mode and a reason", p.Topology)
		}
	})
}

func TestNodePorts(t *testing.T) {
	dual := serviceYAML("default/web", `type: NodePort, clusterIP: 10.96.0.10, clusterIPs: [10.96.0.10, "fd00:96::10"], ipFamilies: [IPv4, IPv6],
		ports: [{name: p, port: 80, nodePort: 30080}]`)
	const clusterIPs, nodePort = "ClusterIP", "NodePort"
	tests := []struct {
		name     string
		args     []string
		v4, v6   []string // kinds of frontends
		problems []string
	}{
		{"K07 primary", []string{"-node-ip", "10.0.0.5", "-node-ip", "fd00::5"}, []string{clusterIPs, nodePort}, []string{clusterIPs, nodePort}, nil},
		{"K08 primary, only IPv4 known", []string{"-node-ip", "10.0.0.5"}, []string{clusterIPs, nodePort}, []string{clusterIPs}, []string{"Node n1 status.addresses"}},
		{"K09 primary, no address known", nil, []string{clusterIPs}, []string{clusterIPs}, []string{"Node n1 status.addresses", "Node n1 status.addresses"}},
		{"K03 no entry for a family", []string{"-node-ip", "10.0.0.5", "-node-ip", "fd00::5", "-nodeport-addresses", "10.0.0.0/8"}, []string{clusterIPs, nodePort}, []string{clusterIPs}, []string{"Node n1 nodePortAddresses"}},
		{"all", []string{"-nodeport-addresses", "all"}, []string{clusterIPs, nodePort}, []string{clusterIPs, nodePort}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := explain(t, []string{dual}, tt.args...)
			for i, want := range [][]string{tt.v4, tt.v6} {
				var got []string
				for _, f := range a.Ports[i].Frontends {
					got = append(got, f.Kind)
				}
				equal(t, a.Ports[i].Family, got, want)
			}
			equal(t, "problems", problems(a), tt.problems)
		})
	}
}

func TestConflicts(t *testing.T) {
	young := strings.Replace(serviceYAML("default/a", "type: NodePort, clusterIP: 10.96.0.1, externalIPs: [192.0.2.1, 10.96.0.2], ports: [{name: p, port: 80, nodePort: 30080}]"),
		"name: a}", "name: a, creationTimestamp: 2024-01-01T00:00:00Z}", 1)
	a := explain(t, []string{
		young,
		serviceYAML("default/b", "type: LoadBalancer, clusterIP: 10.96.0.2, externalIPs: [192.0.2.1, 203.0.113.1], ports: [{name: p, port: 80, nodePort: 30080}]", "203.0.113.1"),
		serviceYAML("default/c", "clusterIP: 10.96.0.3, externalIPs: [203.0.113.1], ports: [{name: p, port: 80}]"),
	}, "-node-ip", "10.0.0.1")
	var got []string
	for _, c := range a.Conflicts {
		got = append(got, fmt.Sprintf("%s %s %s > %s", c.Address, c.Protocol, c.Owner, c.Loser))
	}
	// b has no creationTimestamp and so is the oldest; a ClusterIP beats an external
	// IP and so does a load-balancer IP; b's own two claims for 203.0.113.1 are none.
	equal(t, "conflicts", got, []string{
		"10.96.0.2:80 TCP default/b:p > default/a:p",
		"192.0.2.1:80 TCP default/b:p > default/a:p",
		"203.0.113.1:80 TCP default/b:p > default/c:p",
		":30080 TCP default/b:p > default/a:p",
	})
	for _, p := range a.Ports {
		if p.Name != "default/b:p" && len(p.Frontends) != 1 {
			t.Errorf("%s: frontends %v, want the ClusterIP only", p.Name, p.Frontends)
		}
	}
}

func TestRules(t *testing.T) {
	objects := []string{webYAML(""), sliceYAML("default/web", "10.244.2.5")}
	if got := explain(t, objects).Rules; got != "" {
		t.Errorf("rules without -rules:\n%s", got)
	}
	for backend, wants := range map[string][]string{
		"nftables": {"ip vipkit", "10.96.0.10", "10.244.2.5"},
		"iptables": {"# iptables-restore --noflush", "*nat", ":VIPKIT-SERVICES - [0:0]", "-d 10.96.0.10/32", "--to-destination 10.244.2.5:"},
		"ipvs":     {"local 10.96.0.10 dev lo", "-A -t 10.96.0.10:80 -s rr", "-r 10.244.2.5:", "add table inet vipkit-ipvs"},
	} {
		got := explain(t, objects, "-rules", backend).Rules
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("the %s rules have no %q:\n%s", backend, want, got)
			}
		}
	}
}
