package ipvs_test

import (
	"net/netip"
	"testing"

	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/backends/ipvs/ipvstest"
)

// An eager kernel makes a connection to a real server as late as it can: after its connections were
// read, if it takes any.
type eager struct {
	ipvs.KernelMethods

	t      *testing.T
	memory *ipvstest.Memory
	key    ipvs.ServerKey
	client netip.AddrPort // the real server to connect to
}

func (e *eager) RealServers(k ipvs.ServerKey) ([]ipvs.RealServer, error) {
	found, err := e.KernelMethods.RealServers(k)
	for _, s := range found {
		if s.Addr == e.client && s.Weight > 0 {
			connect(e.t, e.memory, e.key, e.client, 1)
		}
	}
	return found, err
}

// "Idle" is decided when nothing can come any more.
func TestConnectionWhileItIsRemoved(t *testing.T) {
	t.Run("G14 a connection that arrives meanwhile is not cut", func(t *testing.T) {
		k, m := tcp("10.96.0.50:80"), &ipvstest.Memory{}
		ensure(t, ipvs.NewReconciler(m.Kernel(), 0), k, first)
		r := ipvs.NewReconciler(ipvs.KernelOf(&eager{ipvs.Behind(m.Kernel()), t, m, k, netip.MustParseAddrPort(first)}), 0)
		ensure(t, r, k, second)
		wantWeights(t, r, k, map[string]int{first: 0, second: 1})
		sweep(t, r, 1)
		connect(t, m, k, netip.MustParseAddrPort(first), 0)
		sweep(t, r, 0)
		wantWeights(t, r, k, map[string]int{second: 1})
	})
	t.Run("nor with the whole virtual server", func(t *testing.T) {
		k, m := tcp("10.96.0.50:80"), &ipvstest.Memory{}
		ensure(t, ipvs.NewReconciler(m.Kernel(), 0), k, first)
		r := ipvs.NewReconciler(ipvs.KernelOf(&eager{ipvs.Behind(m.Kernel()), t, m, k, netip.MustParseAddrPort(first)}), 0)
		drainServer(t, r, k, false)
		wantWeights(t, r, k, map[string]int{first: 0})
	})
}
