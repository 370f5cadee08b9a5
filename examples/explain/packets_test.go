package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

// traceAll returns the answers to packets, each as "origin verdict endpoints" with
// flags behind.
func traceAll(a *answer) []string {
	var list []string
	for _, p := range a.Packets {
		text := fmt.Sprintf("%s %s %s", p.Origin, p.Verdict, p.Port)
		text = strings.TrimSpace(text + " " + strings.Join(p.Endpoints, " "))
		if p.Masquerade {
			text += " masquerade"
		}
		if len(p.Exempt) > 0 {
			text += " exempt " + strings.Join(p.Exempt, " ")
		}
		if len(p.Hairpin) > 0 {
			text += " hairpin " + strings.Join(p.Hairpin, " ")
		}
		if p.Reason == "" {
			text += " WITHOUT REASON"
		}
		list = append(list, text)
	}
	return list
}

type packetTest struct{ packet, want string }

// trace asks for all packets in one run, and so for their order too.
func trace(t *testing.T, objects, args []string, tests []packetTest) {
	t.Helper()
	var asked, want []string
	for _, tt := range tests {
		args = append(args, "-packet", tt.packet)
		asked, want = append(asked, tt.packet), append(want, tt.want)
	}
	a := explain(t, objects, args...)
	var echoed []string
	for _, p := range a.Packets {
		echoed = append(echoed, p.Packet)
	}
	equal(t, "packets", echoed, asked)
	equal(t, "answers", traceAll(a), want)
}

func TestOrigins(t *testing.T) {
	trace(t, []string{webYAML(""), sliceYAML("default/web", "10.244.2.5")},
		[]string{"-node-ip", "10.0.0.5", "-node-ip", "10.244.1.1", "-pod-cidr", "10.244.1.0/24", "-pod-interface", "veth*", "-pod-interface", "cni0"},
		[]packetTest{
			{"10.244.1.5,10.96.0.10:80,tcp", "pod forward default/web:p 10.244.2.5:8080"},
			{"10.244.1.1,10.96.0.10:80,TCP", "pod forward default/web:p 10.244.2.5:8080"},
			{"203.0.113.7,10.96.0.10:80,Tcp,veth0", "pod forward default/web:p 10.244.2.5:8080"},
			{"10.0.0.5,10.96.0.10:80,tcp,cni0", "pod forward default/web:p 10.244.2.5:8080"},
			{"10.0.0.5,10.96.0.10:80,tcp", "node forward default/web:p 10.244.2.5:8080 masquerade"},
			{"127.0.0.1,10.96.0.10:80,tcp", "node forward default/web:p 10.244.2.5:8080 masquerade"},
			{"10.0.0.6,10.96.0.10:80,tcp", "outside forward default/web:p 10.244.2.5:8080 masquerade"},
			{"203.0.113.7,10.96.0.10:80,tcp,cni01", "outside forward default/web:p 10.244.2.5:8080 masquerade"},
		})
}

func TestVerdicts(t *testing.T) {
	objects := []string{
		serviceYAML("default/web", "type: LoadBalancer, clusterIP: 10.96.0.10, externalIPs: [192.0.2.1], loadBalancerSourceRanges: [198.51.100.0/24], ports: [{name: p, port: 80, nodePort: 30080}]", "203.0.113.1"),
		sliceYAML("default/web", "10.244.2.5", "10.244.2.10"),
		serviceYAML("default/idle", "clusterIP: 10.96.0.20, ports: [{port: 80}]"),
		serviceYAML("default/six", `clusterIP: "fd00:96::10", ipFamilies: [IPv6], ports: [{name: p, port: 80}]`),
		sliceYAML("default/six", "fd00:2::5"),
		"{apiVersion: networking.k8s.io/v1, kind: ServiceCIDR, metadata: {name: c}, spec: {cidrs: [10.96.0.0/16]}}",
	}
	const both = " default/web:p 10.244.2.10:8080 10.244.2.5:8080"
	trace(t, objects, []string{"-node-ip", "10.0.0.5", "-node-ip", "10.0.0.6", "-service-cidr", "10.97.0.0/16"}, []packetTest{
		{"203.0.113.7,10.96.0.10:80,tcp", "outside forward" + both},
		{"203.0.113.7,192.0.2.1:80,tcp", "outside forward" + both + " masquerade"},
		{"203.0.113.7,10.0.0.5:30080,tcp", "outside forward" + both + " masquerade"},
		{"198.51.100.7,203.0.113.1:80,tcp", "outside forward" + both + " masquerade"},
		{"203.0.113.7,203.0.113.1:80,tcp", "outside drop default/web:p"},
		{"fd00::1,[fd00:96::10]:80,tcp", "outside forward default/six:p [fd00:2::5]:8080"},
		{"203.0.113.7,10.96.0.20:80,tcp", "outside reject default/idle"},
		// These three have no port: E26, E24, and what is not ours.
		{"203.0.113.7,10.96.0.10:81,tcp", "outside reject"},
		{"203.0.113.7,10.96.0.10:80,udp", "outside reject"},
		{"203.0.113.7,10.96.7.7:80,tcp", "outside drop"},
		{"203.0.113.7,10.97.7.7:80,sctp", "outside drop"},
		{"203.0.113.7,192.0.2.1:81,tcp", "outside pass"},
		{"203.0.113.7,203.0.113.1:81,tcp", "outside pass"},
		{"203.0.113.7,10.0.0.6:30080,tcp", "outside pass"},
		{"127.0.0.1,127.0.0.1:30080,tcp", "node pass"},
		{"203.0.113.7,10.0.0.5:30081,tcp", "outside pass"},
		{"fd00::1,[fd00:97::10]:80,tcp", "outside pass"},
	})
}

func TestE13RangesBeforeReject(t *testing.T) {
	trace(t, []string{webYAML(", type: LoadBalancer, loadBalancerSourceRanges: [198.51.100.0/24]", "203.0.113.1")}, nil, []packetTest{
		{"203.0.113.7,203.0.113.1:80,tcp", "outside drop default/web:p"},
		{"198.51.100.7,203.0.113.1:80,tcp", "outside reject default/web:p"},
	})
}

func TestRangesBindEveryOrigin(t *testing.T) {
	trace(t, []string{
		webYAML(", type: LoadBalancer, externalTrafficPolicy: Local, healthCheckNodePort: 31000, loadBalancerSourceRanges: [198.51.100.0/24]", "203.0.113.1"),
		sliceYAML("default/web", "10.244.2.5@n2"),
	}, []string{"-pod-cidr", "10.244.1.0/24", "-node-ip", "10.0.0.5"}, []packetTest{
		{"10.244.1.5,203.0.113.1:80,tcp", "pod drop default/web:p"},
		{"10.0.0.5,203.0.113.1:80,tcp", "node drop default/web:p"},
		{"198.51.100.7,203.0.113.1:80,tcp", "outside drop default/web:p"},
	})
}

func TestExemptAndHairpin(t *testing.T) {
	objects := []string{
		serviceYAML("default/web", "type: NodePort, clusterIP: 10.96.0.10, ports: [{name: p, port: 80, nodePort: 30080}]"),
		// The first runs in the node's own network.
		sliceYAML("default/web", "10.0.0.5@n1", "10.244.1.5@n1", "10.244.2.5@n2"),
	}
	const all = " default/web:p 10.0.0.5:8080 10.244.1.5:8080 10.244.2.5:8080"
	trace(t, objects, []string{"-node-ip", "10.0.0.5", "-pod-cidr", "10.244.1.0/24"}, []packetTest{
		{"203.0.113.7,10.0.0.5:30080,tcp", "outside forward" + all + " masquerade exempt 10.0.0.5:8080"},
		{"10.244.1.5,10.96.0.10:80,tcp", "pod forward" + all + " hairpin 10.244.1.5:8080"},
		{"10.244.1.5,10.0.0.5:30080,tcp", "pod forward" + all + " masquerade exempt 10.0.0.5:8080 hairpin 10.244.1.5:8080"},
		// Its source is the endpoint, but the endpoint is not on this node.
		{"10.244.2.5,10.96.0.10:80,tcp", "outside forward" + all + " masquerade exempt 10.0.0.5:8080"},
		// What the node itself sends passes the hook that masquerades.
		{"127.0.0.1,10.0.0.5:30080,tcp", "node forward" + all + " masquerade"},
	})
}

func TestText(t *testing.T) {
	objects := []string{
		webYAML(`, type: LoadBalancer, externalTrafficPolicy: Local, sessionAffinity: ClientIP, healthCheckNodePort: 31000,
			externalIPs: [10.96.0.20], loadBalancerSourceRanges: [198.51.100.0/24]`, "203.0.113.1", "bogus"),
		sliceYAML("default/web", "10.244.1.5@n1", "10.244.2.5@n2"),
		serviceYAML("default/idle", "clusterIP: 10.96.0.20, ports: [{port: 80}]"),
	}
	want := `default/idle  TCP IPv4
  FRONTEND   ADDRESS        FROM POD  FROM NODE  FROM OUTSIDE
  ClusterIP  10.96.0.20:80  reject    reject     reject
  cluster pool: none

default/web:p  TCP IPv4
  FRONTEND        ADDRESS         FROM POD  FROM NODE     FROM OUTSIDE
  ClusterIP       10.96.0.10:80   cluster   cluster+masq  cluster+masq
  LoadBalancerIP  203.0.113.1:80  cluster   cluster+masq  local  only from 198.51.100.0/24
  cluster pool: 10.244.1.5:8080, 10.244.2.5:8080
  local pool:   10.244.1.5:8080
  affinity:     a client keeps its endpoint for 3h0m0s
  health check: port 31000

Packets
  10.244.1.5,10.96.0.10:80,tcp  (from pod)
    forward by default/web:p to 10.244.1.5:8080 or 10.244.2.5:8080
    because endpoints of the whole cluster
    masqueraded to 10.244.1.5:8080, which is the source itself
  203.0.113.7,203.0.113.1:80,tcp  (from outside)
    drop by default/web:p
    because 203.0.113.7 is not in the source ranges of default/web:p

Conflicts
  10.96.0.20:80 TCP belongs to default/idle; default/web:p does not get it

Problems
  Service default/web: status.loadBalancer.ingress[1].ip: Invalid value: "bogus": must be an IP address
`
	var stdout, stderr bytes.Buffer
	args := []string{"-f", "-", "-node", "n1", "-pod-cidr", "10.244.1.0/24", "-packet", "10.244.1.5,10.96.0.10:80,tcp", "-packet", "203.0.113.7,203.0.113.1:80,tcp"}
	if code := run(args, strings.NewReader(strings.Join(objects, "\n---\n")), &stdout, &stderr); code != exitOK {
		t.Fatalf("exit status %d, standard error:\n%s", code, &stderr)
	}
	equal(t, "text", strings.Split(stdout.String(), "\n"), strings.Split(want, "\n"))
}
