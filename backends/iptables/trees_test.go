package iptables

import (
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// maxPassed is how many rules a packet may be compared with, in all chains together, with
// 10,000 Services.
const maxPassed = 64

// TestPacketPassesTensOfRules sends packets to the first, the last and every 99th of
// 10,000 Services.
func TestPacketPassesTensOfRules(t *testing.T) {
	p := planOf(node(), many(10_000, 3))
	set := parseRules(t, render(t, p, Options{}), "iptables")
	for _, from := range []sender{{"10.200.1.9", "veth9"}, {"192.0.2.10", ""}, {"198.51.100.4", "eth0"}} {
		worst, at := 0, 0
		for i := 9_999; i >= 0; i -= 99 {
			packet := plan.Packet{
				Source: addr(from.src), Destination: netip.AddrPortFrom(manyVIP(i), 80), Protocol: corev1.ProtocolTCP, Interface: from.iface,
			}
			tr := newTraveller(p, packet, 1<<30) // the last endpoint
			if set.travel(tr, from.iface == ""); !tr.dnat {
				t.Fatalf("Service %d is not reached from %s", i, from.src)
			}
			if tr.passed > worst {
				worst, at = tr.passed, i
			}
		}
		if worst > maxPassed {
			t.Errorf("from %s a packet to Service %d passes %d rules, want at most %d", from.src, at, worst, maxPassed)
		}
		t.Logf("from %s: %d rules at most", from.src, worst)
	}
}

// TestOtherPacketPassesFewRules is for the packets that no Service is for: they pass the
// table filter as well.
func TestOtherPacketPassesFewRules(t *testing.T) {
	p := planOf(node(), many(10_000, 0)) // all reject
	set := parseRules(t, render(t, p, Options{}), "iptables")
	for _, dst := range []string{"8.8.8.8:443", "10.200.1.1:80", "10.96.0.1:81", "10.96.39.15:80", "10.97.0.1:80"} {
		packet := plan.Packet{Source: addr("10.200.1.9"), Destination: netip.MustParseAddrPort(dst), Protocol: corev1.ProtocolTCP, Interface: "veth9"}
		tr := newTraveller(p, packet, 0)
		if set.travel(tr, false); tr.passed > maxPassed {
			t.Errorf("a packet to %s passes %d rules, want at most %d", dst, tr.passed, maxPassed)
		}
	}
}

func TestManyPortsOfOneAddressAreSplit(t *testing.T) {
	ports := func(s *service.Service) {
		s.Ports = nil
		for i := range 2000 {
			s.Ports = append(s.Ports, service.Port{Name: fmt.Sprint("p", i), Protocol: corev1.ProtocolTCP, Port: uint16(10_000 + i), NodePort: uint16(30_000 + i)})
		}
	}
	p := planOf(node(), with(app{name: "svc1", vip: vips, eps: localEPs, changes: []func(*service.Service){ports}}))
	set := parseRules(t, render(t, p, Options{}), "iptables")
	for _, dst := range []string{"10.96.0.50:11999", "192.0.2.10:31999"} {
		packet := plan.Packet{Source: addr("198.51.100.4"), Destination: netip.MustParseAddrPort(dst), Protocol: corev1.ProtocolTCP, Interface: "eth0"}
		tr := newTraveller(p, packet, 0)
		if set.travel(tr, false); !tr.dnat || tr.passed > maxPassed {
			t.Errorf("a packet to %s passes %d rules (translated %t), want at most %d", dst, tr.passed, tr.dnat, maxPassed)
		}
	}
}

// randomSite makes addresses that share prefixes of any length.
func randomSite(r *rand.Rand, bits int) site {
	p := []protocol{protocolTCP, protocolUDP, protocolSCTP}[r.IntN(3)]
	port := uint16(r.IntN(4)) << r.IntN(15)
	if bits == 0 {
		return siteOf(netip.Addr{}, p, port)
	}
	b := make([]byte, bits/8)
	binary.BigEndian.PutUint32(b[len(b)-4:], r.Uint32()>>(8+r.IntN(24)))
	b[0] |= byte(r.IntN(3)) << r.IntN(7)
	a, _ := netip.AddrFromSlice(b)
	return siteOf(a, p, port)
}

// TestDispatchIsTheSameInAnyOrder applies random changes and compares the chains with
// those of a tree that was built at once.
func TestDispatchIsTheSameInAnyOrder(t *testing.T) {
	for _, bits := range []int{0, 32, 128} {
		for seed := range uint64(25) {
			r := rand.New(rand.NewPCG(seed, uint64(bits)))
			d := newDispatch("ROOT", "", bits)
			chains := d.all()
			for range 60 {
				changes := make(map[site]string)
				for range 1 + r.IntN(3)*r.IntN(20) {
					k := randomSite(r, bits)
					if len(d.keys) > 0 && r.IntN(3) == 0 {
						k = d.keys[r.IntN(len(d.keys))]
					}
					changes[k] = []string{"", doAccept, doReject}[r.IntN(3)]
				}
				maps.Copy(chains, d.update(changes))
			}
			maps.DeleteFunc(chains, func(_ string, c *chain) bool { return c == nil })
			fresh := newDispatch("ROOT", "", bits)
			if d := differ(chains, fresh.built(d.to)); d != "" {
				t.Fatalf("%d bits, seed %d: %s", bits, seed, d)
			}
		}
	}
}

// built returns all chains of a tree after a first change.
func (d *dispatch) built(to map[site]string) chainEdit {
	d.update(to)
	return d.all()
}

func differ(got, want chainEdit) string {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if got[name] == nil {
			return fmt.Sprintf("chain %s is missing", name)
		}
		if !slices.Equal(got[name].rules, want[name].rules) {
			return fmt.Sprintf("chain %s:\n got %q\nwant %q", name, got[name].rules, want[name].rules)
		}
	}
	if len(got) != len(want) {
		return fmt.Sprintf("got %d chains, want %d", len(got), len(want))
	}
	return ""
}

func TestMatchOfPortRange(t *testing.T) {
	d := newDispatch("ROOT", "", 32)
	k := siteOf(addr("10.96.0.50"), protocolTCP, 0xABCD)
	for n, want := range map[int]string{
		14: "-d 10.96.0.0/14",
		32: "-d 10.96.0.50/32",
		40: "-d 10.96.0.50/32 -p tcp",
		44: "-d 10.96.0.50/32 -p tcp -m tcp --dport 40960:45055",
		56: "-d 10.96.0.50/32 -p tcp -m tcp --dport 43981",
	} {
		if got := d.match(k, n); got != want {
			t.Errorf("first %d bits: %q, want %q", n, got, want)
		}
	}
}

// caterpillar is Services whose sites differ from a first one in one bit each, so that a tree which splits bit by bit
// loses one of them at each level: for every bit of the address after the first byte and every bit of the port.
func caterpillar() plan.Input {
	in := with()
	first4, first6 := addr("10.85.85.85").As4(), addr("fd55:5555:5555:5555:5555:5555:5555:5555").As16()
	for i := 8; i < 128; i++ {
		a := app{name: fmt.Sprintf("svc%d", i), eps: localEPs}
		other := first6
		other[i/8] ^= 0x80 >> (i % 8)
		a.vip = netip.AddrFrom16(other).String()
		if i < 32 {
			four := first4
			four[i/8] ^= 0x80 >> (i % 8)
			a.vip += " " + netip.AddrFrom4(four).String()
		}
		s := a.service()
		in.Services[s.Name], in.Endpoints[s.Name] = s, endpointsOf(s, a.eps)
	}
	a := app{name: "first", vip: netip.AddrFrom4(first4).String() + " " + netip.AddrFrom16(first6).String(), eps: localEPs}
	a.changes = []func(*service.Service){func(s *service.Service) {
		s.Ports = nil
		for i := range uint16(40) {
			port := 21845 ^ uint16(1)<<(i%16)
			if i >= 16 {
				port = 21845 ^ i
			}
			s.Ports = append(s.Ports, service.Port{Name: fmt.Sprint("p", i), Protocol: corev1.ProtocolTCP, Port: port})
		}
	}, func(s *service.Service) {
		s.IPv4.LoadBalancerIPs, s.IPv6.LoadBalancerIPs = []netip.Addr{s.IPv4.ClusterIP.Prev()}, []netip.Addr{s.IPv6.ClusterIP.Prev()}
		s.IPv4.SourceRanges, s.IPv6.SourceRanges = []netip.Prefix{prefix("198.51.100.0/24")}, []netip.Prefix{prefix("2001:db8:5::/64")}
	}}
	s := a.service()
	in.Services[s.Name], in.Endpoints[s.Name] = s, endpointsOf(s, a.eps)
	return in
}

// deepest is how many chains the kernel of nftables follows after the built-in one (NFT_JUMP_STACK_SIZE - 1), whether by jump or goto.
const deepest = 15

// TestChainsAreNotNestedTooDeeply follows all jumps.
func TestChainsAreNotNestedTooDeeply(t *testing.T) {
	for name, in := range map[string]plan.Input{"one bit differs": caterpillar(), "10,000 in a row": many(10_000, 1)} {
		text := render(t, planOf(node(), in), Options{})
		for _, program := range []string{"iptables", "ip6tables"} {
			set := parseRules(t, text, program)
			depths := make(map[string]int)
			for chain := range set {
				if d := set.depth(chain, depths); !strings.Contains(chain, "-") && d > deepest {
					t.Errorf("%s: %s: from %s there are %d chains below each other, want at most %d", name, program, chain, d, deepest)
				}
			}
		}
	}
}

// depth is how many chains below each other may follow on one.
func (set ruleset) depth(chain string, known map[string]int) int {
	if d, ok := known[chain]; ok {
		return d
	}
	d := 0
	table, _, _ := strings.Cut(chain, " ")
	for _, r := range set[chain] {
		if next := table + " " + r.target; strings.Contains(r.target, "-") {
			d = max(d, 1+set.depth(next, known))
		}
	}
	known[chain] = d
	return d
}
