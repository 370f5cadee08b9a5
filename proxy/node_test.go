package proxy_test

import (
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// nodeObject returns the v1.Node of which node() is what a plan needs.
func nodeObject() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"kubernetes.io/os": "linux"}},
		Spec:       corev1.NodeSpec{PodCIDR: "10.200.0.0/24", PodCIDRs: []string{"10.200.0.0/24", "fd00:200::/64"}},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: "n1"},
			{Type: corev1.NodeInternalIP, Address: "192.0.2.10"},
			{Type: corev1.NodeExternalIP, Address: "198.51.100.1"},
			{Type: corev1.NodeInternalIP, Address: "2001:db8:1::10"},
		}},
	}
}

// setNode does what a program does with a v1.Node.
func (r *rig) setNode(t *testing.T, n *corev1.Node) {
	t.Helper()
	values, problems := proxy.ReadNode(n)
	if len(problems) > 0 {
		t.Fatalf("problems: %v", problems)
	}
	r.SetNode(values)
}

func zoned(zone string) *corev1.Node {
	n := nodeObject()
	n.Labels[corev1.LabelTopologyZone] = zone
	return n
}

// hinted returns a slice with one endpoint for each zone, 10.200.0.1 for the first.
func hinted(zones ...string) *discoveryv1.EndpointSlice {
	s := slice("web")
	for i, zone := range zones {
		e := discoveryv1.Endpoint{Addresses: []string{"10.200.0." + string(rune('1'+i))}}
		if zone != "" {
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
		}
		s.Endpoints = append(s.Endpoints, e)
	}
	return s
}

func TestZone(t *testing.T) {
	t.Run("J15 J16 E37 a new zone label makes one round, other changes none", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, runner(0, time.Minute, time.Hour)).open()
			r.SetService(svc("web", "10.96.0.50"))
			r.SetEndpointSlice(hinted("za", "zb"))
			r.setNode(t, zoned("za"))
			r.run(t)
			time.Sleep(time.Second)
			r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.1:8080")

			n := zoned("za")
			n.Labels["team"] = "blue"
			n.ResourceVersion = "2"
			r.setNode(t, n)
			r.setNode(t, zoned("za"))
			time.Sleep(time.Second)
			r.wantStarts(t, 0)

			r.setNode(t, zoned("zb"))
			time.Sleep(time.Second)
			r.wantStarts(t, 0, 2*time.Second)
			if d := r.lastDelta(t); !d.Config || !slices.Equal(changed(d), []string{"ns1/web:http IPv4"}) {
				t.Errorf("Delta: config %v, changes %v", d.Config, changed(d))
			}
			r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.2:8080")
		})
	})
	t.Run("#37 late, changing and removed zone label", func(t *testing.T) {
		r := newRig(t).open()
		r.SetService(svc("web", "10.96.0.50"))
		r.SetEndpointSlice(hinted("z1", "z2"))
		both := []string{"10.200.0.1:8080", "10.200.0.2:8080"}
		steps := []struct {
			node *corev1.Node
			want []string
		}{{nodeObject(), both}, {zoned("z1"), both[:1]}, {zoned("z2"), both[1:]}, {zoned("z3"), both}, {zoned("z2"), both[1:]}, {nodeObject(), both}}
		for _, s := range steps {
			r.setNode(t, s.node)
			r.step(t)
			r.wantEndpoints(t, "10.96.0.50:80", s.want...)
		}
		r.setNode(t, zoned("z1"))
		r.SetEndpointSlice(hinted("z1", ""))
		r.step(t)
		r.wantEndpoints(t, "10.96.0.50:80", both...)
	})
}

func TestNodeChanges(t *testing.T) {
	fromOutside := func(r *rig, dst string) plan.Trace {
		return r.backend.Trace(plan.Packet{
			Source:      netip.MustParseAddr("203.0.113.7"),
			Destination: netip.MustParseAddrPort(dst), Protocol: corev1.ProtocolTCP,
		})
	}
	start := func(t *testing.T) *rig {
		t.Helper()
		r := newRig(t).open()
		s := svc("web", "10.96.0.50")
		s.Spec.Type = corev1.ServiceTypeNodePort
		s.Spec.Ports[0].NodePort = 30080
		r.SetService(s)
		r.SetEndpointSlice(slice("web", "10.200.0.1"))
		r.setNode(t, nodeObject())
		r.step(t)
		return r
	}
	t.Run("#68 the node's address changes", func(t *testing.T) {
		r := start(t)
		if got := fromOutside(r, "192.0.2.10:30080").Verdict; got != plan.Forward {
			t.Errorf("old address: verdict %v, want forward", got)
		}
		n := nodeObject()
		n.Status.Addresses[1].Address = "192.0.2.11"
		r.setNode(t, n)
		r.step(t)
		if got := fromOutside(r, "192.0.2.10:30080").Verdict; got != plan.Pass {
			t.Errorf("old address after: verdict %v, want pass", got)
		}
		if got := fromOutside(r, "192.0.2.11:30080").Verdict; got != plan.Forward {
			t.Errorf("new address: verdict %v, want forward", got)
		}
	})
	t.Run("#68 an update without a relevant change does nothing", func(t *testing.T) {
		r := start(t)
		calls := len(r.backend.Calls())
		n := nodeObject()
		n.Labels["team"] = "blue"
		r.setNode(t, n)
		r.step(t)
		if got := len(r.backend.Calls()); got != calls {
			t.Errorf("%d further calls", got-calls)
		}
	})
	moved := nodeObject()
	moved.Spec.PodCIDRs = []string{"10.201.0.0/24", "fd00:201::/64"}
	pod := func(r *rig) plan.Origin {
		return r.backend.Trace(plan.Packet{
			Source:      netip.MustParseAddr("10.201.0.5"),
			Destination: netip.MustParseAddrPort("10.96.0.50:80"), Protocol: corev1.ProtocolTCP,
		}).Origin
	}
	t.Run("K20 #68 pod CIDRs of the node change", func(t *testing.T) {
		r := start(t)
		if got := pod(r); got != plan.FromOutside {
			t.Errorf("origin %v before, want outside", got)
		}
		r.setNode(t, moved)
		r.step(t)
		if got := pod(r); got != plan.FromPod {
			t.Errorf("origin %v after, want pod", got)
		}
	})
	t.Run("K21 pod CIDRs of the node change, but they are given by the user", func(t *testing.T) {
		r := start(t)
		calls := len(r.backend.Calls())
		n, _ := proxy.ReadNode(moved)
		n.PodCIDRs = node().PodCIDRs
		r.SetNode(n)
		r.step(t)
		if got := len(r.backend.Calls()); got != calls {
			t.Errorf("%d further calls", got-calls)
		}
	})
}

func TestReadNode(t *testing.T) {
	t.Run("#67 both families in their order", func(t *testing.T) {
		n, problems := proxy.ReadNode(zoned("z1"))
		want := node()
		if len(problems) > 0 || n.Name != "n1" || n.Zone != "z1" ||
			!slices.Equal(n.Addresses, append(want.Addresses, netip.MustParseAddr("198.51.100.1"))) || !slices.Equal(n.PodCIDRs, want.PodCIDRs) {
			t.Errorf("ReadNode = %+v, %v", n, problems)
		}
	})
	t.Run("the older podCIDR alone", func(t *testing.T) {
		o := nodeObject()
		o.Spec.PodCIDRs = nil
		n, problems := proxy.ReadNode(o)
		if len(problems) > 0 || !slices.Equal(n.PodCIDRs, node().PodCIDRs[:1]) {
			t.Errorf("ReadNode = %+v, %v", n, problems)
		}
	})
	t.Run("text of earlier versions of Kubernetes", func(t *testing.T) {
		o := nodeObject()
		o.Status.Addresses[0].Address = "192.000.002.010"
		o.Spec.PodCIDRs = []string{"::ffff:10.1.2.3/104"}
		n, problems := proxy.ReadNode(o)
		if len(problems) > 0 || n.Addresses[0] != netip.MustParseAddr("192.0.2.10") || !slices.Equal(n.PodCIDRs, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}) {
			t.Errorf("ReadNode = %+v, %v", n, problems)
		}
	})
	t.Run("what cannot be read is reported and left out", func(t *testing.T) {
		o := nodeObject()
		o.Status.Addresses[1].Address = "192.0.2"
		o.Spec.PodCIDRs[1] = "10.0.0.0/33"
		n, problems := proxy.ReadNode(o)
		if len(n.Addresses) != 2 || len(n.PodCIDRs) != 1 || len(problems) != 2 {
			t.Fatalf("ReadNode = %+v, %v", n, problems)
		}
		if p := problems[0]; p.Object != "Node n1" || p.Field != "spec.podCIDRs[1]" {
			t.Errorf("problem %+v", p)
		}
		if p := problems[1]; p.Object != "Node n1" || p.Field != "status.addresses[1].address" {
			t.Errorf("problem %+v", p)
		}
		if n, problems := proxy.ReadNode(nil); n.Name != "" || problems != nil {
			t.Errorf("ReadNode(nil) = %+v, %v", n, problems)
		}
	})
}

// Nothing is made up: no bind address and no loopback stands for an address that
// the node has not; a user who wants another address gives it.
func TestPrimaryAddress(t *testing.T) {
	addresses := func(ips ...string) []corev1.NodeAddress {
		var list []corev1.NodeAddress
		for _, ip := range ips {
			list = append(list, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: ip})
		}
		return list
	}
	external := func(ips ...string) []corev1.NodeAddress {
		list := addresses(ips...)
		for i := range list {
			list[i].Type = corev1.NodeExternalIP
		}
		return list
	}
	tests := []struct {
		name   string
		object []corev1.NodeAddress
		own    string // put in front by the user, "" for nothing
		v4, v6 string // the primary ones, "" for none
	}{
		{"K12 one family", addresses("10.0.0.5"), "", "10.0.0.5", ""},
		{"K13 an address of the user's", addresses("10.0.0.5", "fd00::5"), "fd00::9", "10.0.0.5", "fd00::9"},
		{"K14 the first of each family, in any order", addresses("fd00::5", "10.0.0.5", "10.0.0.6", "fd00::6"), "", "10.0.0.5", "fd00::5"},
		{"K15 no addresses", nil, "", "", ""},
		{"fault F01 an ExternalIP where there is no InternalIP", slices.Concat(
			external("203.0.113.77", "2001:db8:77::1"), addresses("192.0.2.10"),
		), "", "192.0.2.10", "2001:db8:77::1"},
		{"fault F01 ExternalIPs only", external("203.0.113.77", "2001:db8:77::1"), "", "203.0.113.77", "2001:db8:77::1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t).open()
			n, _ := proxy.ReadNode(&corev1.Node{Status: corev1.NodeStatus{Addresses: tt.object}})
			if tt.own != "" {
				n.Addresses = slices.Insert(n.Addresses, 0, netip.MustParseAddr(tt.own))
			}
			r.SetNode(n)
			r.step(t)
			for family, want := range map[corev1.IPFamily]string{corev1.IPv4Protocol: tt.v4, corev1.IPv6Protocol: tt.v6} {
				var list []netip.Addr
				if want != "" {
					list = append(list, netip.MustParseAddr(want))
				}
				if got := r.Plan().NodePortAddresses(family); !slices.Equal(got.Addrs, list) || got.Any || len(got.Prefixes) > 0 {
					t.Errorf("%s: %+v, want %v", family, got, list)
				}
			}
		})
	}
}

func serviceCIDR(n string, cidrs ...string) *networkingv1.ServiceCIDR {
	return &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: n}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
}

func TestServiceCIDRs(t *testing.T) {
	unused := func(r *rig, addr string) plan.Verdict { return r.dial(addr + ":80").Verdict }
	t.Run("E38 a new ServiceCIDR counts at once", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, runner(0, time.Minute, time.Hour)).open()
			r.run(t)
			time.Sleep(time.Second)
			r.SetServiceCIDR(serviceCIDR("more", "10.97.0.0/16"))
			synctest.Wait()
			r.wantStarts(t, 0, time.Second)
			if got := unused(r, "10.97.0.5"); got != plan.Drop {
				t.Errorf("verdict %v, want drop", got)
			}
			r.SetServiceCIDR(serviceCIDR("more", "10.97.0.0/16"))
			time.Sleep(time.Second)
			r.wantStarts(t, 0, time.Second)
		})
	})
	t.Run("a range counts as long as somebody has it", func(t *testing.T) {
		r := newRig(t, func(o *proxy.Options) {
			o.Config.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}
		}).open()
		check := func(addr string, want plan.Verdict) {
			t.Helper()
			r.step(t)
			if got := unused(r, addr); got != want {
				t.Errorf("%s: verdict %v, want %v", addr, got, want)
			}
		}
		check("10.96.0.5", plan.Drop)
		r.SetServiceCIDR(serviceCIDR("a", "10.97.0.0/16", "fd00:97::/112"))
		r.SetServiceCIDR(serviceCIDR("b", "10.97.0.0/16", "10.96.0.0/16"))
		r.DeleteServiceCIDR("a")
		check("10.97.0.5", plan.Drop)
		r.ReplaceServiceCIDRs([]*networkingv1.ServiceCIDR{serviceCIDR("c", "10.98.0.0/16"), nil})
		check("10.97.0.5", plan.Pass)
		check("10.98.0.5", plan.Drop)
		check("10.96.0.5", plan.Drop)
		r.DeleteServiceCIDR("c")
		r.DeleteServiceCIDR("unknown")
		check("10.98.0.5", plan.Pass)
	})
}

func TestFamilies(t *testing.T) {
	t.Run("J17 a change of one family touches that family only", func(t *testing.T) {
		r := newRig(t).open()
		r.SetService(svc("web", "10.96.0.50", "fd00:96::50"))
		r.SetEndpointSlice(slice("web", "10.200.0.1"))
		r.step(t)
		six := slice("web", "fd00:200::1")
		six.Name = "web-6"
		r.SetEndpointSlice(six)
		r.step(t)
		if got := changed(r.lastDelta(t)); !slices.Equal(got, []string{"ns1/web:http IPv6"}) {
			t.Errorf("changes %v, want IPv6 only", got)
		}
		r.wantInPlace(t)
	})
	t.Run("#67 a node without IPv6 addresses runs with IPv4", func(t *testing.T) {
		r := newRig(t, func(o *proxy.Options) { o.Config.Node.Addresses = o.Config.Node.Addresses[:1] }).open()
		s := svc("web", "10.96.0.50", "fd00:96::50")
		s.Spec.Type = corev1.ServiceTypeNodePort
		s.Spec.Ports[0].NodePort = 30080
		r.SetService(s)
		here := slice("web", "10.200.0.1")
		here.Endpoints[0].NodeName = ptr("n1")
		r.SetEndpointSlice(here)
		r.step(t)
		r.wantEndpoints(t, "10.96.0.50:80", "10.200.0.1:8080")
		r.wantEndpoints(t, "192.0.2.10:30080", "10.200.0.1:8080")
		if p := r.Problems(); len(p) != 1 || p[0].Object != "Node n1" {
			t.Errorf("problems %v, want one of the node", p)
		}
	})
	t.Run("J18 a change of a Service touches both families in one round", func(t *testing.T) {
		r := newRig(t).open()
		s := svc("web", "10.96.0.50", "fd00:96::50")
		r.SetService(s)
		r.step(t)
		s = s.DeepCopy()
		s.Spec.Ports[0].Port = 81
		r.SetService(s)
		r.step(t)
		if got := changed(r.lastDelta(t)); !slices.Equal(got, []string{"ns1/web:http IPv4", "ns1/web:http IPv6"}) {
			t.Errorf("changes %v, want both families", got)
		}
	})
}

// What an ExternalIP is used for, on a node whose only IPv6 address is one.
func TestExternalAddress(t *testing.T) {
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeExternalIP, Address: "2001:db8:77::1"},
		{Type: corev1.NodeExternalIP, Address: "203.0.113.77"},
		{Type: corev1.NodeInternalIP, Address: "192.0.2.10"},
	}}}
	r := newRig(t).open()
	r.setNode(t, object)
	web := svc("web", "fd00:96::50")
	web.Spec.Type, web.Spec.IPFamilies = corev1.ServiceTypeLoadBalancer, []corev1.IPFamily{corev1.IPv6Protocol}
	web.Spec.Ports[0].NodePort = 30080
	web.Spec.LoadBalancerSourceRanges = []string{"2001:db8:77::/64"}
	web.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "2001:db8:9::40"}}
	r.SetService(web)
	r.step(t)
	p := r.Plan()
	dial := func(from, to string) plan.Trace {
		return p.Trace(plan.Packet{Source: netip.MustParseAddr(from), Destination: netip.MustParseAddrPort(to), Protocol: corev1.ProtocolTCP})
	}
	if got := r.Problems(); len(got) > 0 {
		t.Errorf("fault F01 problems: %v", got)
	}
	if got := dial("2001:db8:5::4", "[2001:db8:77::1]:30080").Verdict; got != plan.Reject {
		t.Errorf("fault F01 NodePort: %v, want reject, as there are no endpoints", got)
	}
	if got := dial("203.0.113.77", "192.0.2.10:80").Origin; got != plan.FromNode {
		t.Errorf("fault F01 origin: %v, want node", got)
	}
	if got := dial("2001:db8:9::40", "[2001:db8:9::40]:80").Verdict; got != plan.Reject {
		t.Errorf("fault F01 a range that has the node has its load-balancer IP: %v, want reject", got)
	}
}
