package topology_test

import (
	"net/netip"
	"testing"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/topology"
)

func addrPort(i int) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 80)
}

// manyEndpoints returns n ready endpoints, every tenth on node n1, with the given
// zone hints in turn.
func manyEndpoints(n int, zones ...string) []*endpoints.Endpoint {
	list := make([]endpoints.Endpoint, n)
	for i := range list {
		list[i] = endpoints.Endpoint{Addr: addrPort(i), Ready: true, Serving: true, NodeName: "n2"}
		if i%10 == 0 {
			list[i].NodeName = "n1"
		}
		if len(zones) > 0 {
			list[i].Hints = &endpoints.Hints{ForZones: []string{zones[i%len(zones)]}}
		}
	}
	return endpoints.NewSet(map[endpoints.Key][]endpoints.Endpoint{{}: list}).Get(endpoints.Key{})
}

func TestSelectDoesNotCopy(t *testing.T) {
	late := manyEndpoints(10)
	for _, e := range late[:3] {
		e.Ready = false
	}
	tests := []struct {
		name, policy string
		eps          []*endpoints.Endpoint
	}{
		{"all ready", "C/C/no", manyEndpoints(100)},
		{"none", "C/L/yes", nil},
		{"the first are not ready", "C/C/no", late},
		{"one local, internal Local", "L/C/no", manyEndpoints(10)},
		{"one local, external Local", "C/L/yes", manyEndpoints(10)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := policy(tt.policy)
			if n := testing.AllocsPerRun(10, func() { topology.Select(tt.eps, n1, p) }); n != 0 {
				t.Errorf("Select allocates %v times", n)
			}
		})
	}
	t.Run("a list that is the input cannot grow into it", func(t *testing.T) {
		eps := manyEndpoints(3)
		cluster := topology.Select(eps[:2], n1, policy("C/C/no")).Cluster
		_ = append(cluster, nil)
		if eps[2] == nil {
			t.Error("append to Cluster wrote into the input")
		}
	})
}

func BenchmarkSelect(b *testing.B) {
	for _, bb := range []struct {
		name, policy string
		eps          []*endpoints.Endpoint
	}{
		{"10", "C/C/no", manyEndpoints(10)},
		{"10/local", "C/L/yes", manyEndpoints(10)},
		{"10/zone", "C/C/no", manyEndpoints(10, "za", "zb", "zc")},
		{"5000", "C/C/no", manyEndpoints(5000)},
		{"5000/local", "C/L/yes", manyEndpoints(5000)},
		{"5000/zone+local", "C/L/yes", manyEndpoints(5000, "za", "zb", "zc")},
	} {
		b.Run(bb.name, func(b *testing.B) {
			p := policy(bb.policy)
			b.ReportAllocs()
			for b.Loop() {
				topology.Select(bb.eps, n1, p)
			}
		})
	}
}
