package plan_test

import (
	"net/netip"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// at returns the set of one Service with an endpoint at each address, of the node after it.
func at(places ...[2]string) *endpoints.Set {
	list := make([]endpoints.Endpoint, 0, len(places))
	for _, p := range places {
		list = append(list, endpoints.Endpoint{Addr: netip.MustParseAddrPort(p[0]), NodeName: p[1], Ready: true, Serving: true})
	}
	return endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{{Port: "p80", Protocol: tcp, Family: v4}: list})
}

func TestNameOfTheNode(t *testing.T) {
	here, astray := [2]string{"10.180.0.1:8080", "n1"}, [2]string{"10.180.0.2:8080", "N1"}
	tests := []struct {
		name string
		set  *endpoints.Set
		want bool
	}{
		{"fault F02 #75 a name with another letter case", at(astray), true},
		{"no nodeName in the node's range", at([2]string{"10.180.0.2:8080", ""}), true},
		{"an address of the node under another name", at([2]string{"192.168.0.2:8080", "n1.example"}), true},
		{"host network without nodeName, as the API servers", at([2]string{"192.168.0.2:8080", ""}), false},
		{"one has the name", at(astray, here), false},
		{"all are elsewhere", at([2]string{"10.181.0.1:8080", "n2"}), false},
		{"none", at(), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			checkName(t, build(config(), svc(), tt.set), tt.want)
		})
	}
	t.Run("it follows the endpoints and the node", func(t *testing.T) {
		p := build(config(), svc(), at(astray))
		other := config()
		other.Node.Name = "N1"
		p, _ = p.Update(plan.Input{Config: &other})
		checkName(t, p, false)
		back := config()
		p, _ = p.Update(plan.Input{Config: &back})
		checkName(t, p, true)
		p, _ = p.Update(plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{named("ns1/svc1"): at(astray, here)}})
		checkName(t, p, false)
		p, _ = p.Update(plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{named("ns1/svc1"): nil}})
		checkName(t, p, false)
	})
}

// TestNameFollowsRanges changes only what says that endpoints are here.
func TestNameFollowsRanges(t *testing.T) {
	for _, tt := range []struct {
		name, endpoint string
		change         func(*plan.Config)
	}{
		{"pod ranges", "10.180.0.2:8080", func(c *plan.Config) { c.Node.PodCIDRs[0] = prefix("10.9.0.0/16") }},
		{"addresses", "192.168.0.2:8080", func(c *plan.Config) { c.Node.Addresses = []netip.Addr{addr("192.168.0.3")} }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := build(config(), svc(), at([2]string{tt.endpoint, "N1"}))
			checkName(t, p, true)
			other, back := config(), config()
			tt.change(&other)
			p, _ = p.Update(plan.Input{Config: &other})
			checkName(t, p, false)
			p, _ = p.Update(plan.Input{Config: &back})
			checkName(t, p, true)
		})
	}
}

// checkName looks whether there is one problem of the node's name, or none.
func checkName(t *testing.T, p *plan.Plan, want bool) {
	t.Helper()
	n := 0
	for _, pr := range p.Problems() {
		if pr.Field == "metadata.name" && pr.Object == "Node n1" {
			n++
		}
	}
	if got := n == 1; got != want || n > 1 {
		t.Errorf("%d problems of the name, want %t: %v", n, want, p.Problems())
	}
}

func TestUnknownLocalAddresses(t *testing.T) {
	cfg := config()
	cfg.NodePortAddresses = selector(t, "all")
	p := build(cfg, svc(nodePort(30080), externalIP("9.9.9.9"), func(s *service.Service) { s.ExternalLocal = true }), eps("a R"))
	tests := []struct {
		name, source, iface, dst string
		want, local              string // "" if it is the same
	}{
		{"fault F08d a source that may be the node's", "172.17.0.1", "", "9.9.9.9:80", "drop", "a"},
		{"fault F06 fault F08d with all, a destination that may be the node's", "10.180.0.9", "veth1", "172.17.0.1:30080", "pass", "a"},
		{"fault F08d a source that comes in is not the node's", "172.17.0.1", "eth0", "9.9.9.9:80", "drop", ""},
		{"fault F08d an address of the node", "192.168.0.2", "", "9.9.9.9:80", "a", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tr := p.Trace(plan.Packet{Source: addr(tt.source), Interface: tt.iface, Destination: netip.MustParseAddrPort(tt.dst), Protocol: tcp})
			got, local := answerVerdict(tr), ""
			if tr.IfLocal != nil {
				local = answerVerdict(*tr.IfLocal)
			}
			if got != tt.want || local != tt.local {
				t.Errorf("got %q, if local %q; want %q and %q", got, local, tt.want, tt.local)
			}
		})
	}
}

// TestUnknownLocalAddressInSourceRange dials one load-balancer IP from another: if the first is the machine's own, the range
// has an address of the node, but no data plane finds that out.
func TestUnknownLocalAddressInSourceRange(t *testing.T) {
	p := build(config(), svc(vip("198.51.100.1", "198.51.100.2"), ranges("198.51.100.1/32")), eps("a R"))
	tr := p.Trace(plan.Packet{Source: addr("198.51.100.2"), Destination: netip.MustParseAddrPort("198.51.100.1:80"), Protocol: tcp})
	if tr.Verdict != plan.Drop || tr.IfLocal != nil && tr.IfLocal.Verdict != plan.Drop {
		t.Errorf("got %+v, want it dropped wherever the addresses are", tr)
	}
}

// TestUnknownLocalAddressesTellMore has the same verdict for both, but not the same answer.
func TestUnknownLocalAddressesTellMore(t *testing.T) {
	cfg := config()
	cfg.NodePortAddresses = selector(t, "all")
	p := build(cfg, svc(externalIP("9.9.9.9"), func(s *service.Service) { s.ExternalLocal = true }), eps("a R loc", "b R"))
	tr := p.Trace(packet("172.17.0.1", "9.9.9.9:80"))
	if got := answerVerdict(tr); got != "a" || tr.IfLocal == nil || answerVerdict(*tr.IfLocal) != "a b" {
		t.Errorf("got %q, if local %+v; want a, and a b", got, tr.IfLocal)
	}
}

// answerVerdict is the verdict in a word, "a" for an endpoint.
func answerVerdict(t plan.Trace) string {
	if t.Verdict == plan.Forward {
		return letters(t.Endpoints)
	}
	return t.Verdict.String()
}
