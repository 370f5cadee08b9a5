package plan_test

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

const (
	v4  = corev1.IPv4Protocol
	v6  = corev1.IPv6Protocol
	tcp = corev1.ProtocolTCP
	udp = corev1.ProtocolUDP
)

var (
	addr   = netip.MustParseAddr
	prefix = netip.MustParsePrefix
)

// sources are clients of every origin; the keys are those of the tables.
var sources = map[string][2]string{
	"P": {"10.180.0.99", "fd00:180::99"},
	"H": {"192.168.0.2", "2001:db8::2"},
	"X": {"203.0.113.7", "2001:db8:ffff::7"},
}

// config is node n1 in zone za with addresses and pods of both families.
func config() plan.Config {
	return plan.Config{Node: plan.Node{
		Name: "n1", Zone: "za",
		Addresses: []netip.Addr{addr("192.168.0.2"), addr("2001:db8::2")},
		PodCIDRs:  []netip.Prefix{prefix("10.180.0.0/16"), prefix("fd00:180::/64")},
	}}
}

func named(s string) types.NamespacedName {
	ns, name, _ := strings.Cut(s, "/")
	return types.NamespacedName{Namespace: ns, Name: name}
}

func key(s string, f corev1.IPFamily) plan.Key {
	s, port, _ := strings.Cut(s, ":")
	return plan.Key{PortName: service.PortName{NamespacedName: named(s), Port: port, Protocol: tcp}, Family: f}
}

// svc returns Service ns1/svc1 with ClusterIP 10.96.0.10 and port p80, changed by
// the given functions.
func svc(changes ...func(*service.Service)) *service.Service {
	s := &service.Service{
		Name:  named("ns1/svc1"),
		Ports: []service.Port{{Name: "p80", Protocol: tcp, Port: 80}},
		IPv4:  service.Addresses{ClusterIP: addr("10.96.0.10")},
	}
	for _, c := range changes {
		c(s)
	}
	return s
}

// Changes for svc.
func name(n string) func(*service.Service) { return func(s *service.Service) { s.Name = named(n) } }

func clusterIP(a string) func(*service.Service) {
	return func(s *service.Service) { s.IPv4.ClusterIP = addr(a) }
}

func nodePort(n uint16) func(*service.Service) {
	return func(s *service.Service) { s.Ports[0].NodePort = n }
}
func dualStack(s *service.Service)         { s.IPv6.ClusterIP = addr("fd00:96::10") }
func port(n uint16) func(*service.Service) { return func(s *service.Service) { s.Ports[0].Port = n } }
func proto(p corev1.Protocol) func(*service.Service) {
	return func(s *service.Service) { s.Ports[0].Protocol = p }
}

func vip(addrs ...string) func(*service.Service) {
	return func(s *service.Service) {
		for _, a := range addrs {
			s.Addresses(family(a)).LoadBalancerIPs = append(s.Addresses(family(a)).LoadBalancerIPs, addr(a))
		}
	}
}

func externalIP(addrs ...string) func(*service.Service) {
	return func(s *service.Service) {
		for _, a := range addrs {
			s.Addresses(family(a)).ExternalIPs = append(s.Addresses(family(a)).ExternalIPs, addr(a))
		}
	}
}

func ranges(list ...string) func(*service.Service) {
	return func(s *service.Service) {
		for _, r := range list {
			a := s.Addresses(family(strings.Split(r, "/")[0]))
			a.SourceRanges = append(a.SourceRanges, prefix(r))
		}
	}
}

func family(a string) corev1.IPFamily {
	if addr(a).Is4() {
		return v4
	}
	return v6
}

// eps reads endpoints as the tables of the spec write them: "a R loc z:za+zb n:n1"
// is the endpoint a. States: R ready, N not ready, T terminating and serving,
// X terminating and not serving, P terminating but ready and serving, S serving
// only. loc is on node n1, the others are on n2. They are under port p80/TCP of both families.
func eps(list ...string) *endpoints.Set { return epsOf("p80", tcp, list...) }

func epsOf(port string, proto corev1.Protocol, list ...string) *endpoints.Set {
	m := map[endpoints.Key][]endpoints.Endpoint{}
	for _, f := range []corev1.IPFamily{v4, v6} {
		k := endpoints.Key{Port: port, Protocol: proto, Family: f}
		for _, text := range list {
			m[k] = append(m[k], endpoint(text, f))
		}
	}
	return endpoints.NewSet(m)
}

func endpoint(text string, f corev1.IPFamily) endpoints.Endpoint {
	words := strings.Fields(text)
	e := endpoints.Endpoint{Addr: netip.AddrPortFrom(endpointAddr(words[0], f), 8080), NodeName: "n2", Weight: 1, Hints: &endpoints.Hints{}}
	for _, w := range words[1:] {
		kind, value, _ := strings.Cut(w, ":")
		switch kind {
		case "loc":
			e.NodeName = "n1"
		case "z":
			e.Hints.ForZones = strings.Split(value, "+")
		case "n":
			e.Hints.ForNodes = strings.Split(value, "+")
		default:
			e.Ready = w == "R" || w == "P"
			e.Serving = w != "N" && w != "X"
			e.Terminating = w == "T" || w == "X" || w == "P"
		}
	}
	return e
}

func endpointAddr(letter string, f corev1.IPFamily) netip.Addr {
	n := letter[0] - 'a' + 1
	if f == v6 {
		return addr(fmt.Sprintf("fd00:180::%d", n))
	}
	return netip.AddrFrom4([4]byte{10, 180, 0, n})
}

// letters is the other way round: "a b".
func letters(list []*endpoints.Endpoint) string {
	words := make([]string, len(list))
	for i, e := range list {
		bytes := e.Addr.Addr().AsSlice()
		words[i] = string('a' + rune(bytes[len(bytes)-1]) - 1)
	}
	return strings.Join(words, " ")
}

// input has the given Services, each followed by its endpoints, if any.
func input(objects ...any) plan.Input {
	in := plan.Input{Services: map[types.NamespacedName]*service.Service{}, Endpoints: map[types.NamespacedName]*endpoints.Set{}}
	var last types.NamespacedName
	for _, o := range objects {
		switch o := o.(type) {
		case *service.Service:
			last = o.Name
			in.Services[last] = o
		case *endpoints.Set:
			in.Endpoints[last] = o
		}
	}
	return in
}

func build(cfg plan.Config, objects ...any) *plan.Plan {
	p, _ := plan.New(cfg).Update(input(objects...))
	return p
}

// told asks for a packet: source is P, H, X or an address, dst "10.96.0.10:80",
// with "/udp" behind it if not TCP. The answer is "a b", "a b masq", "drop" and so on.
func told(p *plan.Plan, source, dst string) string {
	return answer(p.Trace(packet(source, dst)))
}

func packet(source, dst string) plan.Packet {
	dst, protocol, _ := strings.Cut(dst, "/")
	to := netip.MustParseAddrPort(dst)
	if s, ok := sources[source]; ok {
		source = s[0]
		if to.Addr().Is6() {
			source = s[1]
		}
	}
	if protocol == "" {
		protocol = "TCP"
	}
	return plan.Packet{Source: addr(source), Destination: to, Protocol: corev1.Protocol(strings.ToUpper(protocol))}
}

func answer(t plan.Trace) string {
	if t.Verdict != plan.Forward {
		return t.Verdict.String()
	}
	s := letters(t.Endpoints)
	if t.Masquerade {
		s += " masq"
	}
	return s
}

// checkPackets asks for packets "X 10.96.0.10:80" and compares the answers.
func checkPackets(t *testing.T, p *plan.Plan, want map[string]string) {
	t.Helper()
	for _, k := range slices.Sorted(maps.Keys(want)) {
		source, dst, _ := strings.Cut(k, " ")
		if got := told(p, source, dst); got != want[k] {
			t.Errorf("%s -> %q, want %q (%s)", k, got, want[k], p.Trace(packet(source, dst)).Reason)
		}
	}
}
