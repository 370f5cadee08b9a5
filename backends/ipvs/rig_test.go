package ipvs_test

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/backends/ipvs/ipvstest"
	"github.com/vipkit/vipkit/internal/ip"
)

// A rig is an IPVS to test: the one in memory, or the kernel's in a namespace of the test.
type rig struct {
	kernel *ipvs.Kernel

	// connect makes a connection to a virtual server whose only real server with a weight is
	// server, and returns how to end it: after that the connection is not counted any more.
	connect func(t *testing.T, k ipvs.ServerKey, server netip.AddrPort) (end func())
}

// rigs returns what each test of the suite runs on: the IPVS in memory and that of the kernel.
func rigs() map[string]func(t *testing.T) *rig {
	return map[string]func(t *testing.T) *rig{"memory": memoryRig, "kernel": kernelRig}
}

func memoryRig(t *testing.T) *rig {
	t.Helper()
	m := &ipvstest.Memory{}
	return &rig{kernel: m.Kernel(), connect: func(t *testing.T, k ipvs.ServerKey, server netip.AddrPort) func() {
		t.Helper()
		connect(t, m, k, server, 1)
		return func() { connect(t, m, k, server, 0) }
	}}
}

func connect(t *testing.T, m *ipvstest.Memory, k ipvs.ServerKey, server netip.AddrPort, n int) {
	t.Helper()
	if err := m.Connect(k, server, n, 0); err != nil {
		t.Fatal(err)
	}
}

// require skips the test if the system lacks something, unless the environment insists on
// IPVS.
func require(tb testing.TB, err error) {
	tb.Helper()
	requireOf(tb, err, "ipvs")
}

// requireOf does so if the environment insists on what; any kernel test if that is empty.
func requireOf(tb testing.TB, err error, what string) {
	tb.Helper()
	insist := os.Getenv("VIPKIT_REQUIRE_KERNEL")
	if errors.Is(err, errors.ErrUnsupported) && (insist == "" || !strings.Contains(insist, what)) {
		tb.Skip(err)
	}
	tb.Fatal(err)
}

func tcp(text string) ipvs.ServerKey { return keyOf(text, corev1.ProtocolTCP) }
func udp(text string) ipvs.ServerKey { return keyOf(text, corev1.ProtocolUDP) }

func keyOf(text string, p corev1.Protocol) ipvs.ServerKey {
	at := addrPort(text)
	return ipvs.ServerKey{Addr: at, Protocol: p, Family: ip.Family(at.Addr())}
}

// reals returns real servers of weight 1.
func reals(addrs ...string) []ipvs.RealServer {
	var out []ipvs.RealServer
	for _, a := range addrs {
		out = append(out, ipvs.RealServer{Addr: netip.MustParseAddrPort(a), Weight: 1})
	}
	return out
}

func ensure(t *testing.T, r *ipvs.Reconciler, k ipvs.ServerKey, servers ...string) {
	t.Helper()
	if err := r.Ensure(t.Context(), ipvs.VirtualServer{ServerKey: k, Real: reals(servers...)}); err != nil {
		t.Fatal(err)
	}
}

// weights returns the weight of each real server of a virtual server, nil if there is none.
func weights(t *testing.T, r *ipvs.Reconciler, k ipvs.ServerKey) map[string]int {
	t.Helper()
	v, err := r.Get(k)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]int)
	for _, s := range v.Real {
		out[s.Addr.String()] = s.Weight
	}
	return out
}

func wantWeights(t *testing.T, r *ipvs.Reconciler, k ipvs.ServerKey, want map[string]int) {
	t.Helper()
	if diff := cmp.Diff(want, weights(t, r, k)); diff != "" {
		t.Errorf("real servers of %s and their weights (-want +got):\n%s", k, diff)
	}
}

func sweep(t *testing.T, r *ipvs.Reconciler, wantLeft int) {
	t.Helper()
	left, err := r.Sweep(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if left != wantLeft {
		t.Errorf("Sweep() = %d left, want %d", left, wantLeft)
	}
}

var (
	compareAddrs = cmpopts.EquateComparable(netip.AddrPort{}, netip.Addr{})
	unexported   = cmpopts.IgnoreUnexported(ipvs.RealServer{})
)

// eventually waits for something that the kernel does in its own time.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}
