package plan_test

import (
	"fmt"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

const endpointsPerService = 10

// cluster returns n Services with ten endpoints each, the first of them on node a.
func cluster(n int) plan.Input {
	in := plan.Input{
		Services:  make(map[types.NamespacedName]*service.Service, n),
		Endpoints: make(map[types.NamespacedName]*endpoints.Set, n),
	}
	for i := range n {
		name := types.NamespacedName{Namespace: fmt.Sprintf("ns%d", i%100), Name: fmt.Sprintf("svc%d", i)}
		svc := &service.Service{Name: name, Ports: []service.Port{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}}}
		svc.IPv4.ClusterIP = netip.AddrFrom4([4]byte{10, 96 + byte(i>>16), byte(i >> 8), byte(i)})
		in.Services[name], in.Endpoints[name] = svc, endpointsOf(i, endpointsPerService)
	}
	return in
}

func endpointsOf(i, n int) *endpoints.Set {
	eps := make([]endpoints.Endpoint, n)
	for j := range eps {
		k := i*endpointsPerService + j
		addr := netip.AddrFrom4([4]byte{10, 128 + byte(k>>16), byte(k >> 8), byte(k)})
		eps[j] = endpoints.Endpoint{Addr: netip.AddrPortFrom(addr, 8080), Ready: true, Serving: true, NodeName: "b", Weight: 1}
	}
	eps[0].NodeName = "a"
	return endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{
		{Port: "http", Protocol: corev1.ProtocolTCP, Family: corev1.IPv4Protocol}: eps,
	})
}

func benchConfig() plan.Config {
	return plan.Config{Node: plan.Node{
		Name: "a", Zone: "z1",
		Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.10")},
		PodCIDRs:  []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")},
	}}
}

func sizes(b *testing.B, run func(b *testing.B, n int)) {
	b.Helper()
	for _, n := range []int{1_000, 10_000, 50_000} {
		b.Run(fmt.Sprintf("services=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			run(b, n)
		})
	}
}

// TestOneChangeCostsTheSame counts allocations, which unlike times are the same
// on every machine: each level of a tree is one.
func TestOneChangeCostsTheSame(t *testing.T) {
	allocs := func(n int) float64 {
		p, _ := plan.New(benchConfig()).Update(cluster(n))
		next := endpointsOf(77, endpointsPerService-1)
		return testing.AllocsPerRun(10, func() { p.Update(onlySet("ns77/svc77", next)) })
	}
	if few, many := allocs(300), allocs(5_000); many > 1.5*few {
		t.Errorf("one endpoint of 5,000 Services costs %v allocations, of 300 %v", many, few)
	}
}

func BenchmarkCold(b *testing.B) {
	sizes(b, func(b *testing.B, n int) {
		b.Helper()
		in, empty := cluster(n), plan.New(benchConfig())
		for b.Loop() {
			empty.Update(in)
		}
	})
}

func BenchmarkOneEndpoint(b *testing.B) {
	sizes(b, func(b *testing.B, n int) {
		b.Helper()
		in := cluster(n)
		p, _ := plan.New(benchConfig()).Update(in)
		const i = 77
		name := types.NamespacedName{Namespace: "ns77", Name: "svc77"}
		versions := []*endpoints.Set{endpointsOf(i, endpointsPerService-1), endpointsOf(i, endpointsPerService)}
		turn := 0
		for b.Loop() {
			turn = 1 - turn
			p, _ = p.Update(plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{name: versions[turn]}})
		}
	})
}

func BenchmarkNoChange(b *testing.B) {
	sizes(b, func(b *testing.B, n int) {
		b.Helper()
		in := cluster(n)
		cfg := benchConfig()
		p, _ := plan.New(cfg).Update(in)
		for b.Loop() {
			p, _ = p.Update(plan.Input{Config: &cfg})
		}
	})
}

func BenchmarkConfigChange(b *testing.B) {
	sizes(b, func(b *testing.B, n int) {
		b.Helper()
		a, z := benchConfig(), benchConfig()
		z.Node.Zone = "z2"
		p, _ := plan.New(a).Update(cluster(n))
		for b.Loop() {
			a, z = z, a
			p, _ = p.Update(plan.Input{Config: &a})
		}
	})
}

// BenchmarkDelta is a new plan with one endpoint changed, and the delta that leads to it.
func BenchmarkDelta(b *testing.B) {
	sizes(b, func(b *testing.B, n int) {
		b.Helper()
		p, diff := plan.New(benchConfig()).Update(cluster(n))
		var c plan.Cursor
		c.Note(diff)
		c.Done(c.Delta(p), nil)
		const i = 77
		name := types.NamespacedName{Namespace: "ns77", Name: "svc77"}
		versions := []*endpoints.Set{endpointsOf(i, endpointsPerService-1), endpointsOf(i, endpointsPerService)}
		for turn := 0; b.Loop(); turn++ {
			p, diff = p.Update(plan.Input{Endpoints: map[types.NamespacedName]*endpoints.Set{name: versions[turn%2]}})
			c.Note(diff)
			d := c.Delta(p)
			if len(d.Changes) != 1 {
				b.Fatalf("%d changes, want 1", len(d.Changes))
			}
			c.Done(d, nil)
		}
	})
}
