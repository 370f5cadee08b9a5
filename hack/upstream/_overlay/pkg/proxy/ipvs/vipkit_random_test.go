//go:build linux

package ipvs

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/proxy"
	"k8s.io/kubernetes/test/utils/ktesting"

	ipsettest "k8s.io/kubernetes/pkg/proxy/ipvs/ipset/testing"
	ipvstest "k8s.io/kubernetes/pkg/proxy/ipvs/util/testing"
	iptablestest "k8s.io/kubernetes/pkg/util/iptables/testing"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// TestVipkitRandom gives random objects to the proxier. The hook compares virtual servers.
func TestVipkitRandom(t *testing.T) {
	_, ctx := ktesting.NewTestContext(t)
	t.Cleanup(shadow.Random())
	g := shadow.NewGenerator(shadow.Options{Names: 4, Valid: true})
	for i := range shadow.Rounds(300) {
		g.Options.Family = shadow.Family(i)
		p := NewFakeProxier(ctx, iptablestest.NewFake(), ipvstest.NewFake(), ipsettest.NewFake("6.0"),
			[]string{"192.168.0.2", "192.168.0.3", "2001:db8::1:1"}, nil, g.Options.Family)
		p.nodeName = shadow.NodeName
		p.endpointsChanges = proxy.NewEndpointsChangeTracker(g.Options.Family, p.nodeName, nil, nil)
		if g.Percent(75) {
			p.topologyLabels = map[string]string{v1.LabelTopologyZone: shadow.Zone}
		}
		w := shadow.NewWorld(g, p)
		for range 3 {
			w.Change(6)
			if err := p.syncProxyRules(); err != nil {
				t.Fatal(err)
			}
		}
	}
}
