package endpoints_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/vipkit/vipkit/endpoints"
)

// A readTest changes a slice of Service svc with the ready endpoint 10.0.0.1.
type readTest struct {
	name     string
	change   func(s *discoveryv1.EndpointSlice)
	want     string   // as of text
	problems []string // API paths
}

func runReadTests(t *testing.T, tests []readTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSlice("s1", "svc", ready("10.0.0.1")...)
			tt.change(s)
			tr := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
			changed, errs := tr.Set(s)
			if changed != (tt.want != "") {
				t.Errorf("Set reports change %t, want %t", changed, tt.want != "")
			}
			if got := fields(errs); !slices.Equal(got, tt.problems) {
				t.Errorf("problems at %q, want %q", got, tt.problems)
			}
			c := tr.Pending()
			if got := text(c.Sets[name("svc")]); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
			if len(c.Sets) > 0 != changed {
				t.Errorf("%d Services pending, but change is %t", len(c.Sets), changed)
			}
		})
	}
}

func TestPorts(t *testing.T) {
	ports := func(ports ...discoveryv1.EndpointPort) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) { s.Ports = ports }
	}
	udp := newPort("p", 80)
	udp.Protocol = ptr.To(corev1.ProtocolUDP)
	runReadTests(t, []readTest{
		{"B11 #21 a missing port name is the empty one", ports(discoveryv1.EndpointPort{Port: ptr.To[int32](80)}), "/TCP/IPv4: 10.0.0.1:80", nil},
		{"B12 empty port name", ports(newPort("", 80)), "/TCP/IPv4: 10.0.0.1:80", nil},
		{"B13 #21 no port number", ports(discoveryv1.EndpointPort{Name: ptr.To("a")}, newPort("b", 80)), "b/TCP/IPv4: 10.0.0.1:80", []string{"ports[0].port"}},
		{"B14 #21 port number 0", ports(newPort("a", 80), newPort("b", 0)), "a/TCP/IPv4: 10.0.0.1:80", []string{"ports[1].port"}},
		{"port number beyond 65535", ports(newPort("a", 65536), newPort("b", 65535), newPort("c", -1)), "b/TCP/IPv4: 10.0.0.1:65535", []string{"ports[0].port", "ports[2].port"}},
		{"B15 #21 protocol nil", ports(discoveryv1.EndpointPort{Name: ptr.To("p"), Port: ptr.To[int32](80)}), "p/TCP/IPv4: 10.0.0.1:80", nil},
		{"protocol empty", func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = ptr.To[corev1.Protocol]("") }, "p/TCP/IPv4: 10.0.0.1:80", nil},
		{"B16 the protocol is part of the key", ports(udp), "p/UDP/IPv4: 10.0.0.1:80", nil},
		{"a protocol that no Service has", func(s *discoveryv1.EndpointSlice) { s.Ports[0].Protocol = ptr.To[corev1.Protocol]("udp") }, "p/udp/IPv4: 10.0.0.1:80", nil},
		{"B35 no ports", ports(), "", nil},
		{"one port name with two numbers", ports(newPort("p", 80), newPort("p", 8080)), "p/TCP/IPv4: 10.0.0.1:80 10.0.0.1:8080", nil},
		{"keys are sorted", ports(newPort("q", 81), udp, newPort("p", 80)), "p/TCP/IPv4: 10.0.0.1:80\np/UDP/IPv4: 10.0.0.1:80\nq/TCP/IPv4: 10.0.0.1:81", nil},
	})
}

func TestAddresses(t *testing.T) {
	addrs := func(addrs ...string) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) { s.Endpoints = ready(addrs...) }
	}
	addrs6 := func(addrs ...string) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) {
			s.AddressType, s.Endpoints = discoveryv1.AddressTypeIPv6, ready(addrs...)
		}
	}
	runReadTests(t, []readTest{
		{"B01 a slice with two endpoints", addrs("10.0.0.1", "10.0.0.2"), "p/TCP/IPv4: 10.0.0.1:80 10.0.0.2:80", nil},
		{"B17 only the first address", func(s *discoveryv1.EndpointSlice) {
			s.Endpoints[0].Addresses = []string{"10.0.0.1", "10.0.0.9"}
		}, "p/TCP/IPv4: 10.0.0.1:80", nil},
		{"B18 #21 no address", func(s *discoveryv1.EndpointSlice) { s.Endpoints[0].Addresses = nil }, "", nil},
		{"blank address", addrs("", " ", "10.0.0.3"), "p/TCP/IPv4: 10.0.0.3:80", nil},
		{"B33 sorted by bytes", addrs("10.0.0.2", "10.0.0.10"), "p/TCP/IPv4: 10.0.0.10:80 10.0.0.2:80", nil},
		{"B34 canonical IPv6", addrs6("fd00:0:0::1"), "p/TCP/IPv6: [fd00::1]:80", nil},
		{"B20 the key has the family", addrs6("FD00::0010", "fd00::2"), "p/TCP/IPv6: [fd00::10]:80 [fd00::2]:80", nil},
		{"leading zeros are decimal", addrs("010.000.0.011"), "p/TCP/IPv4: 10.0.0.11:80", nil},
		{"mapped IPv4 is IPv4", addrs("::ffff:10.0.0.7"), "p/TCP/IPv4: 10.0.0.7:80", nil},
		{"mapped IPv4 is not IPv6", addrs6("::ffff:10.0.0.7", "fd00::1"), "p/TCP/IPv6: [fd00::1]:80", []string{"endpoints[0].addresses[0]"}},
		{"IPv6 in an IPv4 slice", addrs("10.0.0.1", "fd00::1"), "p/TCP/IPv4: 10.0.0.1:80", []string{"endpoints[1].addresses[0]"}},
		{"IPv4 in an IPv6 slice", addrs6("10.0.0.1"), "", []string{"endpoints[0].addresses[0]"}},
		{"not an address", addrs("10.0.0.256", "web", "10.0.0.1/24", "10.0.0.4"), "p/TCP/IPv4: 10.0.0.4:80", []string{"endpoints[0].addresses[0]", "endpoints[1].addresses[0]", "endpoints[2].addresses[0]"}},
		{"an address with a zone", addrs6("fe80::1%eth0", "fd00::1"), "p/TCP/IPv6: [fd00::1]:80", []string{"endpoints[0].addresses[0]"}},
		{"fault F30 special addresses of IPv4", addrs("127.0.0.1", "0.0.0.0", "169.254.169.254", "224.0.0.1", "::ffff:127.0.0.1", "10.0.0.1"), "p/TCP/IPv4: 10.0.0.1:80", []string{"endpoints[0].addresses[0]", "endpoints[1].addresses[0]", "endpoints[2].addresses[0]", "endpoints[3].addresses[0]", "endpoints[4].addresses[0]"}},
		{"fault F30 special addresses of IPv6", addrs6("::", "::1", "fe80::1", "ff02::1", "fd00::1"), "p/TCP/IPv6: [fd00::1]:80", []string{"endpoints[0].addresses[0]", "endpoints[1].addresses[0]", "endpoints[2].addresses[0]", "endpoints[3].addresses[0]"}},
		{"a bad address is reported once for all ports", func(s *discoveryv1.EndpointSlice) {
			s.Ports = append(s.Ports, newPort("q", 81))
			s.Endpoints = append(s.Endpoints, newEndpoint("x", "R"))
		}, "p/TCP/IPv4: 10.0.0.1:80\nq/TCP/IPv4: 10.0.0.1:81", []string{"endpoints[1].addresses[0]"}},
	})
}

func TestSelection(t *testing.T) {
	label := func(key, value string) func(*discoveryv1.EndpointSlice) {
		return func(s *discoveryv1.EndpointSlice) { s.Labels[key] = value }
	}
	const want = "p/TCP/IPv4: 10.0.0.1:80"
	runReadTests(t, []readTest{
		{"B19 #21 FQDN", func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN }, "", nil},
		{"fault F30 unknown address type", func(s *discoveryv1.EndpointSlice) { s.AddressType = "IPv8" }, "", []string{"addressType"}},
		{"fault F30 no address type", func(s *discoveryv1.EndpointSlice) { s.AddressType = "" }, "", []string{"addressType"}},
		{"unknown address type, for another proxy", func(s *discoveryv1.EndpointSlice) {
			s.AddressType = "IPv8"
			s.Labels["service.kubernetes.io/service-proxy-name"] = "other"
		}, "", nil},
		{"B24 #21 no service-name label", func(s *discoveryv1.EndpointSlice) { s.Labels = nil }, "", []string{"metadata.labels[kubernetes.io/service-name]"}},
		{"B24 empty service-name label", label("kubernetes.io/service-name", ""), "", []string{"metadata.labels[kubernetes.io/service-name]"}},
		{"FQDN without the label", func(s *discoveryv1.EndpointSlice) { s.AddressType, s.Labels = discoveryv1.AddressTypeFQDN, nil }, "", nil},
		{"no name", func(s *discoveryv1.EndpointSlice) { s.Name = "" }, "", []string{"metadata.name"}},
		{"no namespace", func(s *discoveryv1.EndpointSlice) { s.Namespace = "" }, "", []string{"metadata.namespace"}},
		{"#31 for another proxy", label("service.kubernetes.io/service-proxy-name", "other"), "", nil},
		{"#31 an empty proxy name is one too", label("service.kubernetes.io/service-proxy-name", ""), "", nil},
		{"headless", label("service.kubernetes.io/headless", ""), "", nil},
		{"other labels", label("endpointslice.kubernetes.io/managed-by", "me"), want, nil},
	})
}

// TestMirrored has what the mirroring controller makes of 1001 addresses in an
// Endpoints object: it stops at 1000, and all of them are used.
func TestMirrored(t *testing.T) {
	t.Run("B36 all endpoints of a mirrored slice", func(t *testing.T) {
		s := newSlice("s1", "svc")
		s.Labels["endpointslice.kubernetes.io/managed-by"] = "endpointslicemirroring-controller.k8s.io"
		for i := range 1000 {
			s.Endpoints = append(s.Endpoints, newEndpoint("10.1."+strconv.Itoa(i/250)+"."+strconv.Itoa(i%250), "R"))
		}
		set := load(t, s).Pending().Sets[name("svc")]
		if got := len(set.Get(keyP())); got != 1000 {
			t.Errorf("%d endpoints, want 1000", got)
		}
	})
}

func TestConditions(t *testing.T) {
	no, yes := ptr.To(false), ptr.To(true)
	tests := []struct {
		name                        string
		in                          discoveryv1.EndpointConditions
		ready, serving, terminating bool
		usable                      bool
	}{
		{"B08 #21 all nil", discoveryv1.EndpointConditions{}, true, true, false, false},
		{"B09 ready false", discoveryv1.EndpointConditions{Ready: no}, false, true, false, false},
		{"B10 ready false and terminating", discoveryv1.EndpointConditions{Ready: no, Terminating: yes}, false, true, true, true},
		{"not serving and terminating", discoveryv1.EndpointConditions{Ready: no, Serving: no, Terminating: yes}, false, false, true, false},
		{"#30 ready and terminating", discoveryv1.EndpointConditions{Ready: yes, Serving: yes, Terminating: yes}, true, true, true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := newEndpoint("10.0.0.1", "")
			in.Conditions = tt.in
			e := load(t, newSlice("s1", "svc", in)).Pending().Sets[name("svc")].Get(keyP())[0]
			if e.Ready != tt.ready || e.Serving != tt.serving || e.Terminating != tt.terminating {
				t.Errorf("ready %t serving %t terminating %t, want %t %t %t",
					e.Ready, e.Serving, e.Terminating, tt.ready, tt.serving, tt.terminating)
			}
			if e.Usable() != tt.usable {
				t.Errorf("Usable %t, want %t", e.Usable(), tt.usable)
			}
		})
	}
}

func TestNodeAndHints(t *testing.T) {
	tests := []struct {
		name         string
		node         *string
		hints        *discoveryv1.EndpointHints
		wantNode     string
		zones, nodes []string
	}{
		{"B21 #21 no node name, no hints", nil, nil, "", nil, nil},
		{"B22 a node name is kept whatever the node of the proxy", ptr.To("n1"), nil, "n1", nil, nil},
		{"B23 a node name is kept byte by byte", ptr.To("N1"), nil, "N1", nil, nil},
		{"B37 empty lists of hints", nil, &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{}, ForNodes: []discoveryv1.ForNode{}}, "", nil, nil},
		{"one zone and one node", nil, &discoveryv1.EndpointHints{
			ForZones: []discoveryv1.ForZone{{Name: "a"}}, ForNodes: []discoveryv1.ForNode{{Name: "n1"}},
		}, "", []string{"a"}, []string{"n1"}},
		{"hints are sorted, each once", nil, &discoveryv1.EndpointHints{
			ForZones: []discoveryv1.ForZone{{Name: "b"}, {Name: "a"}, {Name: "b"}},
			ForNodes: []discoveryv1.ForNode{{Name: "n2"}, {Name: "n1"}},
		}, "", []string{"a", "b"}, []string{"n1", "n2"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			in := newEndpoint("10.0.0.1", "R")
			in.NodeName, in.Hints = tt.node, tt.hints
			e := load(t, newSlice("s1", "svc", in)).Pending().Sets[name("svc")].Get(keyP())[0]
			if e.NodeName != tt.wantNode {
				t.Errorf("node %q, want %q", e.NodeName, tt.wantNode)
			}
			if !slices.Equal(e.Hints.Zones(), tt.zones) || (e.Hints.Zones() == nil) != (tt.zones == nil) {
				t.Errorf("zone hints %q, want %q", e.Hints.Zones(), tt.zones)
			}
			if !slices.Equal(e.Hints.Nodes(), tt.nodes) || (e.Hints.Nodes() == nil) != (tt.nodes == nil) {
				t.Errorf("node hints %q, want %q", e.Hints.Nodes(), tt.nodes)
			}
			if e.Weight != 1 || e.Ext != nil {
				t.Errorf("weight %d, ext %v, want 1 and nil", e.Weight, e.Ext)
			}
		})
	}
}

func TestNilFields(t *testing.T) {
	t.Run("#21 everything optional is nil", func(t *testing.T) {
		s := newSlice("s1", "svc", discoveryv1.Endpoint{}, newEndpoint("10.0.0.1", ""))
		s.Ports = []discoveryv1.EndpointPort{{Name: ptr.To("a")}, {Port: ptr.To[int32](80)}, {Port: ptr.To[int32](0)}}
		tr := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
		_, errs := tr.Set(s)
		if got, want := strings.Join(fields(errs), " "), "ports[0].port ports[2].port"; got != want {
			t.Errorf("problems at %q, want %q", got, want)
		}
		wantPending(t, tr, "svc /TCP/IPv4: 10.0.0.1:80")
	})
	t.Run("#21 nil slice", func(t *testing.T) {
		tr := endpoints.NewEndpointsChangeTracker(endpoints.Options{})
		if changed, errs := tr.Set(nil); changed || errs != nil {
			t.Errorf("Set(nil) = %t, %v, want no change", changed, errs)
		}
	})
}
