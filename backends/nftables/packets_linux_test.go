package nftables

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// newLab returns a node with a pod, another node and a client around it.
func newLab(t *testing.T) *netlab.Lab {
	t.Helper()
	addrs := func(texts ...string) (out []netip.Addr) {
		for _, s := range texts {
			out = append(out, addr(s))
		}
		return out
	}
	lab, err := netlab.New(netlab.Options{
		Node:   addrs("192.0.2.2", "192.0.2.102", "2001:db8::2", "2001:db8::102"),
		Uplink: "client",
		Hosts: []netlab.Host{
			{Name: "client", Interface: "eth0", Addresses: addrs("192.0.2.1", "198.51.100.77", "2001:db8::1", "2001:db8:5::4")},
			{Name: "remote", Interface: "eth1", Addresses: addrs("10.180.1.1", "10.180.1.2", "fd00:10:180:1::1")},
			{Name: "pod", Interface: "veth1", Addresses: addrs("10.180.0.1", "fd00:10:180::1")},
		},
	})
	if errors.Is(err, errors.ErrUnsupported) && os.Getenv("VIPKIT_REQUIRE_KERNEL") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	return lab
}

// within runs a change in the node's namespace.
func (w *world) within(lab *netlab.Lab, b *Backend, in plan.Input) {
	w.tb.Helper()
	err := lab.Namespace(netlab.NodeName).Do(func() error { return w.try(b, in) })
	if err != nil {
		w.tb.Fatalf("Sync: %v", err)
	}
}

// serve starts every endpoint of a plan.
func serve(t *testing.T, lab *netlab.Lab, p *plan.Plan) {
	t.Helper()
	for port := range p.All() {
		for _, e := range port.Reachable {
			if err := lab.Serve(e.Addr, port.Protocol); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// senders are a host and a source address for every origin and family.
func senders() []netlab.Probe {
	return []netlab.Probe{
		{From: "pod", Source: addr("10.180.0.1")},
		{From: "pod", Source: addr("fd00:10:180::1")},
		{From: netlab.NodeName, Source: addr("192.0.2.2")},
		{From: netlab.NodeName, Source: addr("2001:db8::2")},
		{From: "client", Source: addr("192.0.2.1")},
		{From: "client", Source: addr("198.51.100.77")},
		{From: "client", Source: addr("2001:db8:5::4")},
	}
}

// destinations are all frontends of a plan, and places that are none.
func destinations(p *plan.Plan, proto corev1.Protocol) []netip.AddrPort {
	out := []netip.AddrPort{
		addrPort("10.96.0.10:81"), addrPort("10.96.0.200:80"), addrPort("203.0.113.1:81"),
		addrPort("[fd00:96::10]:81"), addrPort("[fd00:96::200]:80"),
	}
	for port := range p.All() {
		if port.Protocol != proto {
			continue
		}
		for _, fe := range port.Frontends {
			if fe.Kind != plan.NodePort {
				out = append(out, netip.AddrPortFrom(fe.Addr, fe.Port))
				continue
			}
			for _, a := range p.Config().Node.Addresses {
				if (port.Family == corev1.IPv4Protocol) == a.Is4() {
					out = append(out, netip.AddrPortFrom(a, fe.Port))
				}
			}
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}

// compare sends packets of every origin to every frontend, and wants what the plan says.
func compare(t *testing.T, lab *netlab.Lab, p *plan.Plan, proto corev1.Protocol) {
	t.Helper()
	for _, from := range senders() {
		for _, dst := range destinations(p, proto) {
			if from.Source.Is4() != dst.Addr().Is4() {
				continue
			}
			packet := plan.Packet{Source: from.Source, Destination: dst, Protocol: proto, Interface: lab.Interface(from.From)}
			trace := p.Trace(packet)
			if trace.Verdict == plan.Pass {
				continue // what becomes of it is not our business
			}
			pr := from
			pr.Destination, pr.Protocol = dst, proto
			for range 3 {
				if err := agrees(lab, pr, trace); err != nil {
					t.Errorf("%s from %s %s to %s: %v; plan: %s", proto, from.From, from.Source, dst, err, trace.Reason)
				}
			}
		}
	}
}

func agrees(lab *netlab.Lab, pr netlab.Probe, trace plan.Trace) error {
	want := map[plan.Verdict]netlab.Outcome{plan.Forward: netlab.Answered, plan.Reject: netlab.Refused, plan.Drop: netlab.NoAnswer}[trace.Verdict]
	if want == netlab.NoAnswer {
		pr.Timeout = 50 * time.Millisecond
	}
	got, err := lab.Probe(pr)
	if err != nil {
		return err
	}
	if got.Outcome != want {
		return fmt.Errorf("got %s, want %s", got.Outcome, want)
	}
	if want != netlab.Answered {
		return nil
	}
	return rightAnswer(got.Answer, trace)
}

func rightAnswer(got netlab.Answer, trace plan.Trace) error {
	at := slices.IndexFunc(trace.Endpoints, func(e *endpoints.Endpoint) bool { return e.Addr == got.Server })
	if at < 0 {
		return fmt.Errorf("%s answered, want one of %v", got.Server, trace.Endpoints)
	}
	e := trace.Endpoints[at]
	masquerade := trace.Masquerades(e)
	if kept := got.Peer.Addr() == trace.Packet.Source; kept == masquerade && trace.Origin != plan.FromNode {
		return fmt.Errorf("%s saw %s, want masqueraded %v", got.Server, got.Peer, masquerade)
	}
	return nil
}

// TestPackets sends a packet of every origin to every frontend and place near one. The plan
// is what is expected: that it is right is tested with hand-made expectations elsewhere.
func TestPackets(t *testing.T) {
	lab := newLab(t)
	w, b := newWorld(t, plan.Config{}), newBackend(t, Options{})
	configs := []struct {
		name   string
		change func(*plan.Config)
	}{
		{"E01 E02 E04 E05 E06 E07 E08 E09 E10 E11 E13 E15 E18 E20 E24 E26 #7 #26 #62 pod CIDRs", func(c *plan.Config) {
			c.ServiceCIDRs = []netip.Prefix{prefix("10.96.0.0/16"), prefix("fd00:96::/112")}
		}},
		{"#63 pod interfaces, every address serves node ports E21", func(c *plan.Config) {
			c.Node.PodCIDRs, c.PodInterfaces = nil, []string{"veth*", "not-there"}
			c.NodePortAddresses.All = true
		}},
		{"E17 E25 pods cannot be told apart", func(c *plan.Config) { c.Node.PodCIDRs = nil }},
		{"E16 masquerade all, one node port address", func(c *plan.Config) {
			c.MasqueradeAll = true
			c.NodePortAddresses.Prefixes = []netip.Prefix{prefix("192.0.2.102/32")}
		}},
	}
	for _, cc := range configs {
		for _, proto := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
			t.Run(cc.name+" "+string(proto), func(t *testing.T) {
				in := with(over(proto, everything())...)
				in.Config = twoAddresses(cc.change)
				w.tb = t
				w.within(lab, b, in)
				serve(t, lab, w.plan)
				compare(t, lab, w.plan, proto)
			})
		}
	}
}

// twoAddresses returns the configuration of the node that newLab makes.
func twoAddresses(change func(*plan.Config)) *plan.Config {
	cfg := nodeConfig()
	cfg.Node.Addresses = append(cfg.Node.Addresses, addr("192.0.2.102"), addr("2001:db8::102"))
	change(&cfg)
	return &cfg
}

// over gives apps another protocol.
func over(proto corev1.Protocol, apps []app) []app {
	for i := range apps {
		old := apps[i].change
		apps[i].change = func(s *service.Service) {
			if old != nil {
				old(s)
			}
			s.Ports[0].Protocol = proto
		}
	}
	return apps
}
