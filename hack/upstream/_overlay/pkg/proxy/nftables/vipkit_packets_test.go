package nftables

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/knftables"

	"k8s.io/kubernetes/pkg/proxy"
	proxyutil "k8s.io/kubernetes/pkg/proxy/util"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// vipkitProxiers finds the proxier that wrote a table.
var vipkitProxiers = map[*knftables.Fake]*Proxier{}

// NewFakeProxier remembers the proxier.
func NewFakeProxier(family v1.IPFamily) (*knftables.Fake, *Proxier) {
	nft, p := upstreamNewFakeProxier(family)
	vipkitProxiers[nft] = p
	return nft, p
}

// runPacketFlowTests asks a plan besides.
func runPacketFlowTests(t *testing.T, line string, nft *knftables.Fake, nodeIPs []string, tests []packetFlowTest) {
	for _, tt := range tests {
		p := vipkitProxiers[nft]
		if p == nil {
			shadow.Differ("packets-nftables", "rules-without-a-proxier", "%s", t.Name())
			continue
		}
		vipkitTable(p, nodeIPs).Compare(t.Name()+line+" "+tt.name,
			shadow.Packet{Source: tt.sourceIP, Protocol: string(tt.protocol), Destination: tt.destIP, Port: tt.destPort},
			shadow.Fate{Output: tt.output, Masquerade: tt.masq})
	}
	upstreamRunPacketFlowTests(t, line, nft, nodeIPs, tests)
}

func vipkitTable(p *Proxier, nodeIPs []string) shadow.Table {
	cfg := shadow.Proxier{
		Node: p.nodeName, Zone: p.topologyLabels[v1.LabelTopologyZone], NodeIPs: nodeIPs,
		MasqueradeAll: p.masqueradeAll, NodePortAddresses: p.nodePortAddresses.String(),
	}
	if p.localDetector != nil && p.localDetector.IsImplemented() {
		cfg.PodCIDRs = p.localDetector.IfLocalNFT()
	}
	if p.serviceCIDRs != "" {
		cfg.ServiceCIDRs = strings.Split(p.serviceCIDRs, ",")
	}
	return shadow.Table{
		Area: "packets-nftables", Rejects: true,
		Plan: shadow.NewPlan(cfg.Config(), p.serviceChanges.Vipkit(), p.endpointsChanges.Vipkit()),
	}
}

// TestVipkitRandom gives random objects to the proxier and random packets to the tracer.
func TestVipkitRandom(t *testing.T) {
	t.Cleanup(shadow.Random())
	g := shadow.NewGenerator(shadow.Options{Names: 4, Valid: true, NoAffinity: true})
	for i := range shadow.Rounds(700) {
		g.Options.Family = shadow.Family(i)
		nft, p := vipkitRandomProxier(g)
		w := shadow.NewWorld(g, p)
		for range 3 {
			w.Change(6)
			if err := p.syncProxyRules(); err != nil {
				t.Fatal(err)
			}
			nodeIPs := w.OfFamily(testNodeIPs)
			table := vipkitTable(p, nodeIPs)
			for _, packet := range w.Packets(60, vipkitAddresses()) {
				_, output, masq := tracePacket(t, nft, packet.Source, packet.Protocol, packet.Destination, fmt.Sprint(packet.Port), nodeIPs)
				table.Compare("random", packet, shadow.Fate{Output: output, Masquerade: masq})
			}
		}
		delete(vipkitProxiers, nft)
	}
}

func vipkitRandomProxier(g *shadow.Generator) (*knftables.Fake, *Proxier) {
	nft, p := NewFakeProxier(g.Options.Family)
	p.nodeName = shadow.NodeName
	p.endpointsChanges = proxy.NewEndpointsChangeTracker(g.Options.Family, p.nodeName, newEndpointInfo, nil)
	if g.Percent(75) {
		p.topologyLabels = map[string]string{v1.LabelTopologyZone: shadow.Zone}
	}
	p.masqueradeAll = g.Percent(17)
	if g.Percent(17) {
		p.localDetector = proxyutil.NewNoOpLocalDetector()
	}
	return nft, p
}

// vipkitAddresses are where packets come from and go to besides the addresses of objects.
func vipkitAddresses() shadow.Places {
	return shadow.Places{
		Sources: []string{
			"10.0.0.2", "10.1.5.5", testNodeIP, testNodeIPAlt, testExternalClient, testExternalClientBlocked, "203.0.114.9",
			"fd00:10::99", testNodeIPv6, testNodeIPv6Alt, "2600:5200::1", "2001:db8:7::1",
		},
		Destinations: []string{
			testNodeIP, testNodeIPAlt, testNodeIPv6, testNodeIPv6Alt, "172.30.1.200", "fd00:10:96::77", "203.0.113.77", "2600:5200::9",
		},
	}
}
