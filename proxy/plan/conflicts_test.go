package plan_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// rival returns Service ns1/NAME with a ClusterIP of its own.
func rival(n int, svcName string, changes ...func(*service.Service)) *service.Service {
	s := svc(name("ns1/"+svcName), clusterIP(fmt.Sprintf("10.96.0.%d", 100+n)))
	for _, c := range changes {
		c(s)
	}
	return s
}

func created(second int64) func(*service.Service) {
	return func(s *service.Service) { s.Created = time.Unix(second, 0) }
}

func TestConflictOwner(t *testing.T) {
	const shared = "5.5.5.5"
	lb, ext := vip(shared), externalIP(shared)
	tests := []struct {
		name string
		a, b *service.Service
		want string // owner
	}{
		{"ClusterIP before load-balancer IP", rival(1, "a", lb, created(1)), rival(2, "b", clusterIP(shared), created(2)), "ns1/b:p80"},
		{"ClusterIP before external IP", rival(1, "a", ext, created(1)), rival(2, "b", clusterIP(shared), created(2)), "ns1/b:p80"},
		{"load-balancer IP before external IP", rival(1, "a", ext, created(1)), rival(2, "b", lb, created(2)), "ns1/b:p80"},
		{"the oldest", rival(1, "a", ext, created(2)), rival(2, "b", ext, created(1)), "ns1/b:p80"},
		{"no creation time is the oldest", rival(1, "a", ext, created(1)), rival(2, "b", ext), "ns1/b:p80"},
		{"then the name", rival(1, "b", ext, created(1)), rival(2, "a", ext, created(1)), "ns1/a:p80"},
		{"then the name, by bytes", rival(1, "a", ext), rival(2, "Z", ext), "ns1/Z:p80"},
		{"the namespace before the name", rival(1, "a", ext, name("ns2/a")), rival(2, "z", ext), "ns1/z:p80"},
	}
	for _, tt := range tests {
		for _, order := range [][2]*service.Service{{tt.a, tt.b}, {tt.b, tt.a}} {
			t.Run(tt.name+" "+order[0].Name.Name+" first", func(t *testing.T) {
				p := build(config(), order[0], eps("a R"))
				p, _ = p.Update(input(order[1], eps("b R")))
				port, _ := p.Lookup(packet("X", shared+":80").Destination, tcp)
				if port == nil || port.PortName.String() != tt.want {
					t.Fatalf("owner is %v, want %s", port, tt.want)
				}
				loser := tt.a
				if strings.HasPrefix(tt.want, tt.a.Name.String()) {
					loser = tt.b
				}
				want := fmt.Sprintf("%s:80 tcp: %s has it, %s:p80 lost", shared, tt.want, loser.Name)
				if got := conflicts(p); got != want {
					t.Errorf("conflicts are %q, want %q", got, want)
				}
				checkOneOwner(t, p)
			})
		}
	}
}

func conflicts(p *plan.Plan) string {
	var lines []string
	for _, c := range p.Conflicts() {
		lines = append(lines, c.String())
	}
	return strings.Join(lines, "\n")
}

// checkOneOwner looks whether every frontend is found, and at its own port.
func checkOneOwner(t *testing.T, p *plan.Plan) {
	t.Helper()
	seen := map[string]plan.Key{}
	for port := range p.All() {
		if len(port.Frontends) == 0 {
			t.Errorf("%s has no frontend", port.PortName)
		}
		for _, f := range port.Frontends {
			at := fmt.Sprint(&f, port.Protocol)
			found, _ := p.LookupNodePort(port.Family, f.Port, port.Protocol)
			if f.Kind == plan.NodePort {
				at += string(port.Family)
			} else {
				found, _ = p.Lookup(packet("X", f.String()).Destination, port.Protocol)
			}
			if found != port {
				t.Errorf("%s of %s belongs to %v", at, port.PortName, found)
			}
			if other, ok := seen[at]; ok {
				t.Errorf("%s belongs to %v and %v", at, other, port.Key)
			}
			seen[at] = port.Key
		}
	}
}

func TestTakeOver(t *testing.T) {
	a, b, c := rival(1, "a", externalIP("5.5.5.5")), rival(2, "b", externalIP("5.5.5.5")), rival(3, "c", externalIP("5.5.5.5"))
	p := build(config(), a, eps("a R"), b, eps("b R"), c, eps("c R"))
	checkPackets(t, p, map[string]string{"X 5.5.5.5:80": "a masq"})
	steps := []struct {
		name   string
		change map[string]*service.Service
		want   string
		dirty  string // ports in the Diff
	}{
		{"#19 the owner leaves", map[string]*service.Service{"ns1/a": nil}, "b masq", "ns1/a:p80 ns1/b:p80"},
		{"#18 the owner gives the address up", map[string]*service.Service{"ns1/b": rival(2, "b")}, "c masq", "ns1/b:p80 ns1/c:p80"},
		{"#19 a better one comes", map[string]*service.Service{"ns1/a": a}, "a masq", "ns1/a:p80 ns1/c:p80"},
		{"a worse one comes", map[string]*service.Service{"ns1/b": b}, "a masq", ""},
		{"#19 owner and second leave at once", map[string]*service.Service{"ns1/a": nil, "ns1/b": nil}, "c masq", "ns1/a:p80 ns1/b:p80 ns1/c:p80"},
		{"all leave", map[string]*service.Service{"ns1/c": nil}, "pass", "ns1/c:p80"},
	}
	for _, s := range steps {
		t.Run(s.name, func(t *testing.T) {
			in := plan.Input{Services: map[types.NamespacedName]*service.Service{}}
			for n, v := range s.change {
				in.Services[named(n)] = v
			}
			var d plan.Diff
			p, d = p.Update(in)
			checkPackets(t, p, map[string]string{"X 5.5.5.5:80": s.want})
			if got := keys(d.Ports); got != s.dirty {
				t.Errorf("changed ports %q, want %q", got, s.dirty)
			}
			checkOneOwner(t, p)
		})
	}
	if got := conflicts(p); got != "" {
		t.Errorf("conflicts are left: %s", got)
	}
}

func keys(list []plan.Key) string {
	words := make([]string, len(list))
	for i, k := range list {
		words[i] = k.String()
	}
	return strings.Join(words, " ")
}

func TestConflictsInOneService(t *testing.T) {
	s := svc(vip("5.5.5.5", "10.96.0.10"), externalIP("5.5.5.5", "5.5.5.5", "10.96.0.10"))
	p := build(config(), s, eps("a R"))
	if got := conflicts(p); got != "" {
		t.Errorf("conflicts within one Service: %s", got)
	}
	var kinds []string
	for _, f := range p.Port(key("ns1/svc1:p80", v4)).Frontends {
		kinds = append(kinds, f.String()+" "+f.Kind.String())
	}
	if got, want := strings.Join(kinds, ", "), "10.96.0.10:80 ClusterIP, 5.5.5.5:80 LoadBalancerIP"; got != want {
		t.Errorf("frontends are %s, want %s", got, want)
	}
}

func TestConflictsOfNodePorts(t *testing.T) {
	a, b := rival(1, "a", nodePort(30080)), rival(2, "b", nodePort(30080))
	for _, s := range []*service.Service{a, b} {
		s.IPv6.ClusterIP = addr("fd00:96::" + s.Name.Name)
	}
	p := build(config(), a, eps("a R"), b, eps("b R"))
	if got, want := conflicts(p), ":30080 tcp: ns1/a:p80 has it, ns1/b:p80 lost"; got != want {
		t.Errorf("conflicts are %q, want %q once for both families", got, want)
	}
	checkPackets(t, p, map[string]string{"X 192.168.0.2:30080": "a masq", "X [2001:db8::2]:30080": "a masq"})

	none := config()
	none.Node.Addresses = nil
	if got := conflicts(build(none, a, b)); got != "" {
		t.Errorf("conflicts of node ports that are not served: %s", got)
	}
}

func TestPortThatLostAll(t *testing.T) {
	a, b := rival(1, "a"), rival(1, "b")
	p := build(config(), a, eps("a R"), b, eps("b R"))
	if p.Len() != 1 || p.Port(key("ns1/b:p80", v4)) != nil {
		t.Errorf("%d ports, want only that of ns1/a:\n%s", p.Len(), p)
	}
	p, _ = p.Update(plan.Input{Services: map[types.NamespacedName]*service.Service{a.Name: nil}})
	checkPackets(t, p, map[string]string{"P 10.96.0.101:80": "b"})
}

func TestConflictOrder(t *testing.T) {
	all := func(s *service.Service) { externalIP("9.9.9.10", "9.9.9.9")(s); nodePort(30080)(s) }
	p := build(config(), rival(1, "a", all), rival(2, "c", all), rival(3, "b", all))
	want := `:30080 tcp: ns1/a:p80 has it, ns1/b:p80 lost
:30080 tcp: ns1/a:p80 has it, ns1/c:p80 lost
9.9.9.9:80 tcp: ns1/a:p80 has it, ns1/b:p80 lost
9.9.9.9:80 tcp: ns1/a:p80 has it, ns1/c:p80 lost
9.9.9.10:80 tcp: ns1/a:p80 has it, ns1/b:p80 lost
9.9.9.10:80 tcp: ns1/a:p80 has it, ns1/c:p80 lost`
	if got := conflicts(p); got != want {
		t.Errorf("conflicts are\n%s\nwant\n%s", got, want)
	}
}
