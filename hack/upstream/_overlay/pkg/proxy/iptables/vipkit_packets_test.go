package iptables

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"k8s.io/kubernetes/pkg/proxy"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"
	utiliptables "k8s.io/kubernetes/pkg/util/iptables"
	iptablestest "k8s.io/kubernetes/pkg/util/iptables/testing"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// vipkitProxiers finds the proxier that wrote the rules.
var vipkitProxiers = map[utiliptables.Interface]*Proxier{}

// NewFakeProxier remembers the proxier.
func NewFakeProxier(ipt utiliptables.Interface) *Proxier {
	p := upstreamNewFakeProxier(ipt)
	vipkitProxiers[ipt] = p
	return p
}

// runPacketFlowTests asks a plan besides.
func runPacketFlowTests(t *testing.T, line int, ipt *iptablestest.FakeIPTables, nodeIPs []string, tests []packetFlowTest) {
	for _, tt := range tests {
		p := vipkitProxiers[ipt]
		if p == nil {
			shadow.Differ("packets-iptables", "rules-without-a-proxier", "%s", t.Name())
			continue
		}
		vipkitTable(p, nodeIPs).Compare(fmt.Sprint(t.Name(), ":", line, " ", tt.name),
			shadow.Packet{Source: tt.sourceIP, Protocol: string(tt.protocol), Destination: tt.destIP, Port: tt.destPort},
			shadow.Fate{Output: tt.output, Masquerade: tt.masq})
	}
	upstreamRunPacketFlowTests(t, line, ipt, nodeIPs, tests)
}

func vipkitTable(p *Proxier, nodeIPs []string) shadow.Table {
	cfg := shadow.Proxier{
		Node: p.nodeName, Zone: p.topologyLabels[v1.LabelTopologyZone], NodeIPs: nodeIPs,
		MasqueradeAll: p.masqueradeAll, NodePortAddresses: p.nodePortAddresses.String(),
		Localhost: p.localhostNodePorts && p.nodePortAddresses.MatchAll(), NoLocalhost: !p.localhostNodePorts,
	}
	if p.localDetector != nil && p.localDetector.IsImplemented() {
		cfg.PodCIDRs = p.localDetector.IfLocal()
	}
	return shadow.Table{
		Area: "packets-iptables",
		Plan: shadow.NewPlan(cfg.Config(), p.serviceChanges.Vipkit(), p.endpointsChanges.Vipkit()),
	}
}

// TestVipkitRandom gives random objects to the proxier and random packets to the tracer, which
// cannot read to where IPv6 is translated.
func TestVipkitRandom(t *testing.T) {
	t.Cleanup(shadow.Random())
	g := shadow.NewGenerator(shadow.Options{Names: 4, Valid: true, NoAffinity: true, Family: v1.IPv4Protocol})
	for range shadow.Rounds(500) {
		ipt := iptablestest.NewFake()
		p := vipkitRandomProxier(g, ipt)
		w := shadow.NewWorld(g, p)
		for range 3 {
			w.Change(6)
			if err := p.syncProxyRules(); err != nil {
				t.Fatal(err)
			}
			nodeIPs := w.OfFamily(testNodeIPs)
			table := vipkitTable(p, nodeIPs)
			for _, packet := range w.Packets(60, vipkitAddresses()) {
				_, output, masq := tracePacket(t, ipt, packet.Source, packet.Protocol, packet.Destination, fmt.Sprint(packet.Port), nodeIPs)
				table.Compare("random", packet, shadow.Fate{Output: output, Masquerade: masq})
			}
		}
		delete(vipkitProxiers, ipt)
	}
}

func vipkitRandomProxier(g *shadow.Generator, ipt *iptablestest.FakeIPTables) *Proxier {
	p := NewFakeProxier(ipt)
	p.nodeName = shadow.NodeName
	p.endpointsChanges = proxy.NewEndpointsChangeTracker(g.Options.Family, p.nodeName, newEndpointInfo, nil)
	if g.Percent(75) {
		p.topologyLabels = map[string]string{v1.LabelTopologyZone: shadow.Zone}
	}
	p.masqueradeAll = g.Percent(17)
	if g.Percent(17) {
		p.localDetector = proxyutil.NewNoOpLocalDetector()
	}
	return p
}

// vipkitAddresses are where packets come from and go to besides the addresses of objects.
func vipkitAddresses() shadow.Places {
	return shadow.Places{
		Sources: []string{
			"10.0.0.2", "10.1.5.5", testNodeIP, testNodeIPAlt, testExternalClient, testExternalClientBlocked, "203.0.114.9",
		},
		Destinations: []string{testNodeIP, testNodeIPAlt, "172.30.1.200", "203.0.113.77"},
	}
}
