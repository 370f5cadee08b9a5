package main

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
)

// The clients of the demo. The node and the pods behind the Services are in
// the manifests.
const (
	clientPod  = "10.244.1.5" // on the node, behind no Service
	clientPod6 = "fd00:10:244:1::5"
	partner    = "198.51.100.7" // outside, in the source ranges of Service api
	partner6   = "2001:db8::7"
	stranger   = "192.0.2.99" // outside, in no range
)

// A flow is a number of connections from one client to one frontend.
type flow struct {
	what   string
	source string
	to     string
	proto  corev1.Protocol
	count  int
}

func flows() []flow {
	const tcp, udp = corev1.ProtocolTCP, corev1.ProtocolUDP
	return []flow{
		{"a pod dials a ClusterIP", clientPod, "10.96.0.10:80", tcp, 60},
		{"a pod dials a Service that it is part of", "10.244.1.10", "10.96.0.10:80", tcp, 60},
		{"the node itself dials a ClusterIP", "172.18.0.11", "10.96.0.10:80", tcp, 60},
		{"a client outside dials a NodePort", partner, "172.18.0.11:30080", tcp, 40},
		{"a client outside dials a load balancer, policy Local", partner, "203.0.113.30:443", tcp, 20},
		{"one who is not in its source ranges does", stranger, "203.0.113.30:443", tcp, 1},
		{"policy Local, but no pod on this node", partner, "203.0.113.40:25", tcp, 1},
		{"the same from a pod of this node", clientPod, "203.0.113.40:25", tcp, 20},
		{"dual-stack, the IPv4 side", clientPod, "10.96.0.50:80", tcp, 40},
		{"dual-stack, the IPv6 side", clientPod6, "[fd00:10:96::50]:80", tcp, 40},
		{"UDP, with hints for the zone", clientPod, "10.96.0.53:53", udp, 20},
		{"session affinity: one client", clientPod, "10.96.0.60:80", tcp, 20},
		{"session affinity: another client", partner, "10.96.0.60:80", tcp, 20},
		{"a Service without ready endpoints", clientPod, "10.96.0.70:80", tcp, 1},
		{"a port that the Service does not have", clientPod, "10.96.0.10:81", tcp, 1},
		{"a Service address that nobody has", clientPod, "10.96.200.1:80", tcp, 1},
	}
}

// packet returns the first packet of a connection, for the plan to judge.
func (f flow) packet() (plan.Packet, error) {
	source, err := netip.ParseAddr(f.source)
	if err != nil {
		return plan.Packet{}, err
	}
	to, err := netip.ParseAddrPort(f.to)
	if err != nil {
		return plan.Packet{}, err
	}
	return plan.Packet{Source: source, Destination: to, Protocol: f.proto}, nil
}
