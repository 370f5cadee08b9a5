package netlab_test

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

func addrs(text string) []netip.Addr {
	var out []netip.Addr
	for f := range strings.FieldsSeq(text) {
		out = append(out, netip.MustParseAddr(f))
	}
	return out
}

func options() netlab.Options {
	return netlab.Options{
		Node:   addrs("192.0.2.10 192.0.2.110 2001:db8:1::10 2001:db8:1::110"),
		Uplink: "client",
		Hosts: []netlab.Host{
			{Name: "client", Interface: "eth0", Addresses: addrs("192.0.2.1 198.51.100.4 2001:db8:5::1 2001:db8:5::4")},
			{Name: "remote", Interface: "eth1", Addresses: addrs("192.0.2.20 10.200.2.1 2001:db8:1::20 fd00:200:2::1")},
			{Name: "a", Interface: "veth-a", Addresses: addrs("10.200.1.1 fd00:200:1::1")},
		},
	}
}

// newLab skips the test where the kernel has no namespaces for us, unless it must.
func newLab(t *testing.T) *netlab.Lab {
	t.Helper()
	lab, err := netlab.New(options())
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

func probe(t *testing.T, lab *netlab.Lab, p netlab.Probe) netlab.Result {
	t.Helper()
	res, err := lab.Probe(p)
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func protocols(t *testing.T) []corev1.Protocol {
	t.Helper()
	out := []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP}
	err := netlab.HasProtocol(corev1.ProtocolSCTP)
	switch {
	case err == nil:
		out = append(out, corev1.ProtocolSCTP)
	case !errors.Is(err, errors.ErrUnsupported):
		t.Fatal(err)
	}
	return out
}

func TestRouting(t *testing.T) {
	lab := newLab(t)
	tests := []struct{ from, source, to string }{
		{"client", "198.51.100.4", "10.200.1.1:8080"},
		{"client", "2001:db8:5::4", "[fd00:200:1::1]:8080"},
		{"remote", "10.200.2.1", "10.200.1.1:8080"},
		{"remote", "fd00:200:2::1", "[fd00:200:1::1]:8080"},
		{"a", "10.200.1.1", "10.200.2.1:8080"},
		{"a", "fd00:200:1::1", "[fd00:200:2::1]:8080"},
		{"a", "10.200.1.1", "10.200.1.1:8080"},
		{"node", "192.0.2.110", "10.200.2.1:8080"},
		{"node", "2001:db8:1::110", "[fd00:200:2::1]:8080"},
		{"client", "198.51.100.4", "192.0.2.10:8080"},
		{"client", "2001:db8:5::4", "[2001:db8:1::10]:8080"},
	}
	for _, proto := range protocols(t) {
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s from %s to %s", proto, tt.source, tt.to), func(t *testing.T) {
				to, source := netip.MustParseAddrPort(tt.to), netip.MustParseAddr(tt.source)
				if err := lab.Serve(to, proto); err != nil {
					t.Fatal(err)
				}
				res := probe(t, lab, netlab.Probe{From: tt.from, Source: source, Destination: to, Protocol: proto})
				if res.Outcome != netlab.Answered || res.Answer.Server != to || res.Answer.Peer.Addr() != source {
					t.Errorf("got %v, want an answer from %s to %s", res, to, source)
				}
			})
		}
	}
}

func TestSourceOfTheKernelsChoice(t *testing.T) {
	lab := newLab(t)
	for _, to := range []string{"10.200.2.1:80", "[fd00:200:2::1]:80"} {
		dst := netip.MustParseAddrPort(to)
		if err := lab.Serve(dst, corev1.ProtocolTCP); err != nil {
			t.Fatal(err)
		}
		res := probe(t, lab, netlab.Probe{From: "node", Destination: dst, Protocol: corev1.ProtocolTCP})
		if got := res.Answer.Peer.Addr(); got != netip.MustParseAddr("192.0.2.10") && got != netip.MustParseAddr("2001:db8:1::10") {
			t.Errorf("the node dials %s from %s, want its first address", to, got)
		}
	}
}

func TestRefused(t *testing.T) {
	lab := newLab(t)
	for _, proto := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
		for _, to := range []string{"10.200.1.1:81", "[fd00:200:1::1]:81"} {
			res := probe(t, lab, netlab.Probe{From: "client", Destination: netip.MustParseAddrPort(to), Protocol: proto})
			if res.Outcome != netlab.Refused {
				t.Errorf("%s to %s, where nobody listens: %v, want refused", proto, to, res.Outcome)
			}
		}
	}
}

// Rules of nft: what they translate, reject and drop is seen by a Probe as such.
const rules = `
table inet t {
	chain pre {
		type nat hook prerouting priority -100
		ip daddr 10.96.0.1 meta l4proto { tcp, udp, sctp } dnat ip to 10.200.2.1
		ip6 daddr fd00:96::1 meta l4proto { tcp, udp, sctp } dnat ip6 to fd00:200:2::1
	}
	chain post {
		type nat hook postrouting priority 100
		ct status dnat masquerade fully-random
	}
	chain filter {
		type filter hook forward priority 0
		ip daddr 10.96.0.2 reject
		ip6 daddr fd00:96::2 reject
		ip daddr 10.96.0.3 drop
		ip6 daddr fd00:96::3 drop
	}
	chain output {
		type filter hook output priority 0
		ip daddr 10.96.0.2 reject
		ip6 daddr fd00:96::2 reject
		ip daddr 10.96.0.3 drop
		ip6 daddr fd00:96::3 drop
	}
}`

func load(t *testing.T, lab *netlab.Lab) {
	t.Helper()
	err := lab.Namespace(netlab.NodeName).Do(func() error {
		cmd := exec.CommandContext(t.Context(), "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(rules)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("nft: %w: %s", err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRules(t *testing.T) {
	lab := newLab(t)
	load(t, lab)
	tests := []struct {
		from, to string
		want     netlab.Outcome
		peer     string
	}{
		{"client", "10.96.0.1:80", netlab.Answered, "192.0.2.10"},
		{"client", "[fd00:96::1]:80", netlab.Answered, "2001:db8:1::10"},
		{"client", "10.96.0.2:80", netlab.Refused, ""},
		{"client", "[fd00:96::2]:80", netlab.Refused, ""},
		{"node", "10.96.0.2:80", netlab.Refused, ""},
		{"node", "[fd00:96::2]:80", netlab.Refused, ""},
		{"client", "10.96.0.3:80", netlab.NoAnswer, ""},
		{"node", "[fd00:96::3]:80", netlab.NoAnswer, ""},
	}
	for _, proto := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
		for _, s := range []string{"10.200.2.1:80", "[fd00:200:2::1]:80"} {
			if err := lab.Serve(netip.MustParseAddrPort(s), proto); err != nil {
				t.Fatal(err)
			}
		}
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s from %s to %s", proto, tt.from, tt.to), func(t *testing.T) {
				p := netlab.Probe{From: tt.from, Destination: netip.MustParseAddrPort(tt.to), Protocol: proto}
				if tt.want == netlab.NoAnswer {
					p.Timeout = 100 * time.Millisecond
				}
				for range 3 {
					res := probe(t, lab, p)
					if res.Outcome != tt.want {
						t.Fatalf("got %v, want %v", res.Outcome, tt.want)
					}
					if tt.peer != "" && res.Answer.Peer.Addr().String() != tt.peer {
						t.Fatalf("the server saw %s, want %s", res.Answer.Peer, tt.peer)
					}
				}
			})
		}
	}
}

func TestConnectionsStayOpen(t *testing.T) {
	lab := newLab(t)
	to := netip.MustParseAddrPort("10.200.1.1:80")
	for _, proto := range protocols(t) {
		if err := lab.Serve(to, proto); err != nil {
			t.Fatal(err)
		}
		c, res, err := lab.Open(netlab.Probe{From: "client", Destination: to, Protocol: proto})
		if err != nil || c == nil {
			t.Fatalf("%s: open: %v, %v", proto, res, err)
		}
		for range 3 {
			if err := c.Ping(5 * time.Second); err != nil {
				t.Errorf("%s: %v", proto, err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestErrors(t *testing.T) {
	lab := newLab(t)
	to := netip.MustParseAddrPort("10.200.1.1:80")
	if _, err := lab.Probe(netlab.Probe{From: "nobody", Destination: to, Protocol: corev1.ProtocolTCP}); err == nil {
		t.Error("a probe from a host that does not exist: no error")
	}
	if err := lab.Serve(netip.MustParseAddrPort("10.9.9.9:80"), corev1.ProtocolTCP); err == nil {
		t.Error("a server on an address that nobody has: no error")
	}
	opts := options()
	opts.Hosts = append(opts.Hosts, netlab.Host{Name: "a", Interface: "veth-z"})
	if lab, err := netlab.New(opts); err == nil {
		t.Errorf("two hosts of one name: no error, %v", lab.Close())
	}
}

func TestDoKeepsTheCallersNamespace(t *testing.T) {
	lab := newLab(t)
	before, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	err = lab.Namespace(netlab.NodeName).Do(func() error {
		inside, e := os.Readlink("/proc/thread-self/ns/net")
		if e != nil || inside == before {
			return fmt.Errorf("still in %s: %w", inside, e)
		}
		return boom
	})
	if !errors.Is(err, boom) || err.Error() != "boom" {
		t.Errorf("Do returned %v, want the function's own error", err)
	}
}

func BenchmarkProbe(b *testing.B) {
	lab, err := netlab.New(options())
	if err != nil {
		b.Skip(err)
	}
	b.Cleanup(func() {
		if err := lab.Close(); err != nil {
			b.Error(err)
		}
	})
	to := netip.MustParseAddrPort("10.200.1.1:80")
	if err := lab.Serve(to, corev1.ProtocolTCP); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := lab.Probe(netlab.Probe{From: "client", Destination: to, Protocol: corev1.ProtocolTCP}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		lab, err := netlab.New(options())
		if err != nil {
			b.Skip(err)
		}
		if err := lab.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
