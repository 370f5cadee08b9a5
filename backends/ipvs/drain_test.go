package ipvs_test

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/backends/ipvs/ipvstest"
)

const (
	first  = "10.200.0.1:8080"
	second = "10.200.0.2:8080"
)

func TestDrain(t *testing.T) {
	k := tcp("10.96.0.50:80")
	for name, start := range rigs() {
		t.Run("G13 G14 G16 #54 TCP drains, "+name, func(t *testing.T) {
			rig := start(t)
			r := ipvs.NewReconciler(rig.kernel, 0)
			ensure(t, r, k, first)
			end := rig.connect(t, k, netip.MustParseAddrPort(first))
			ensure(t, r, k, second)
			// G13 #54: a TCP endpoint with connections gets weight 0.
			wantWeights(t, r, k, map[string]int{first: 0, second: 1})
			sweep(t, r, 1)
			wantWeights(t, r, k, map[string]int{first: 0, second: 1})
			// G16: it comes back, and its connections go on.
			ensure(t, r, k, first, second)
			wantWeights(t, r, k, map[string]int{first: 1, second: 1})
			v, err := r.Get(k)
			if err != nil {
				t.Fatal(err)
			}
			if n := v.Real[0].Active + v.Real[0].Inactive; n != 1 {
				t.Errorf("G16 connections after the endpoint came back: %d, want 1", n)
			}
			sweep(t, r, 0)
			// G13: and is removed when none remain.
			ensure(t, r, k, second)
			end()
			sweep(t, r, 0)
			wantWeights(t, r, k, map[string]int{second: 1})
			// G14: without connections at once.
			ensure(t, r, k, first)
			wantWeights(t, r, k, map[string]int{first: 1})
		})
	}
}

func TestDrainUDP(t *testing.T) {
	k := udp("10.96.0.50:53")
	for name, start := range rigs() {
		t.Run("G15 #54 UDP goes at once, "+name, func(t *testing.T) {
			rig := start(t)
			r := ipvs.NewReconciler(rig.kernel, 0)
			ensure(t, r, k, first)
			rig.connect(t, k, netip.MustParseAddrPort(first))
			ensure(t, r, k, second)
			// G15 #54: a UDP endpoint is deleted at once, whatever flows it has.
			wantWeights(t, r, k, map[string]int{second: 1})
			sweep(t, r, 0)
		})
	}
}

func TestDrainConnectionless(t *testing.T) {
	m := &ipvstest.Memory{}
	r := ipvs.NewReconciler(m.Kernel(), 0)
	v := ipvs.VirtualServer{
		ServerKey: ipvs.ServerKey{Mark: 7, Family: corev1.IPv4Protocol}, Connectionless: true, Real: reals(first),
	}
	if err := r.Ensure(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	connect(t, m, v.ServerKey, v.Real[0].Addr, 5)
	v.Real = nil
	if err := r.Ensure(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	wantWeights(t, r, v.ServerKey, map[string]int{})
}

func TestDrainAfterRestart(t *testing.T) {
	k := tcp("10.96.0.50:80")
	tests := []struct {
		name string
		want []string
		left map[string]int
	}{
		{"#10 G25 wanted: weight 1", []string{first, second}, map[string]int{first: 1, second: 1}},
		{"#10 not wanted: taken over", []string{second}, map[string]int{first: 0, second: 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, start := range rigs() {
				t.Run(name, func(t *testing.T) {
					rig := start(t)
					old := ipvs.NewReconciler(rig.kernel, 0)
					ensure(t, old, k, first)
					end := rig.connect(t, k, netip.MustParseAddrPort(first))
					ensure(t, old, k, second)

					r := ipvs.NewReconciler(rig.kernel, 0)
					ensure(t, r, k, tt.want...)
					wantWeights(t, r, k, tt.left)
					end()
					sweep(t, r, 0)
					left := maps.Clone(tt.left)
					maps.DeleteFunc(left, func(_ string, weight int) bool { return weight == 0 })
					wantWeights(t, r, k, left)
				})
			}
		})
	}
}

func TestDrainDeadlineSurvivesRestart(t *testing.T) {
	for name, start := range rigs() {
		t.Run(name, func(t *testing.T) {
			rig := start(t)
			k := tcp("10.96.0.50:80")
			ensure(t, ipvs.NewReconciler(rig.kernel, time.Hour), k, first)
			end := rig.connect(t, k, netip.MustParseAddrPort(first))
			defer end()
			begin := time.Now().Truncate(time.Second)
			ensure(t, ipvs.NewReconciler(rig.kernel, time.Hour), k)
			want := until(t, rig.kernel, k)
			if want.Before(begin.Add(time.Hour)) || want.After(time.Now().Add(time.Hour)) {
				t.Errorf("deadline %s, want an hour from now", want)
			}
			// A longer limit of the next process does not prolong it, a shorter one shortens it.
			ensure(t, ipvs.NewReconciler(rig.kernel, 2*time.Hour), k)
			if got := until(t, rig.kernel, k); !got.Equal(want) {
				t.Errorf("deadline after a restart %s, want %s", got, want)
			}
			ensure(t, ipvs.NewReconciler(rig.kernel, time.Minute), k)
			if got := until(t, rig.kernel, k); !got.Before(want) {
				t.Errorf("deadline with a shorter limit %s, want one before %s", got, want)
			}
		})
	}
}

func until(t *testing.T, kernel *ipvs.Kernel, k ipvs.ServerKey) time.Time {
	t.Helper()
	v, err := ipvs.NewReconciler(kernel, 0).Get(k)
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Real) != 1 {
		t.Fatalf("real servers %v, want one", v.Real)
	}
	end, ok := v.Real[0].Draining()
	if !ok {
		t.Fatalf("%+v does not drain", v.Real[0])
	}
	return end
}

func TestDrainDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, k := &ipvstest.Memory{}, tcp("10.96.0.50:80")
		r := ipvs.NewReconciler(m.Kernel(), 10*time.Minute)
		ensure(t, r, k, first, second)
		connect(t, m, k, netip.MustParseAddrPort(first), 3)
		ensure(t, r, k, second)
		time.Sleep(6 * time.Minute)
		sweep(t, r, 1)
		// A new process takes over with what is left of the time.
		r = ipvs.NewReconciler(m.Kernel(), 10*time.Minute)
		ensure(t, r, k, second)
		sweep(t, r, 1)
		time.Sleep(4*time.Minute + time.Second)
		sweep(t, r, 0)
		wantWeights(t, r, k, map[string]int{second: 1})
	})
}

func TestNoDraining(t *testing.T) {
	m, k := &ipvstest.Memory{}, tcp("10.96.0.50:80")
	r := ipvs.NewReconciler(m.Kernel(), -1)
	ensure(t, r, k, first)
	connect(t, m, k, netip.MustParseAddrPort(first), 3)
	ensure(t, r, k)
	wantWeights(t, r, k, map[string]int{})
}

func TestDrainServer(t *testing.T) {
	k := tcp("10.96.0.50:80")
	for name, start := range rigs() {
		t.Run(name, func(t *testing.T) {
			rig := start(t)
			r := ipvs.NewReconciler(rig.kernel, 0)
			ensure(t, r, k, first, second)
			if err := ipvs.Behind(rig.kernel).DeleteReal(k, netip.MustParseAddrPort(second)); err != nil {
				t.Fatal(err)
			}
			end := rig.connect(t, k, netip.MustParseAddrPort(first))
			drainServer(t, r, k, false)
			wantWeights(t, r, k, map[string]int{first: 0})
			sweep(t, r, 1)
			end()
			// #56: the virtual server goes when it is drained.
			sweep(t, r, 0)
			wantWeights(t, r, k, nil)
			drainServer(t, r, k, true)
		})
	}
}

func drainServer(t *testing.T, r *ipvs.Reconciler, k ipvs.ServerKey, want bool) {
	t.Helper()
	gone, err := r.Drain(t.Context(), k)
	if err != nil {
		t.Fatal(err)
	}
	if gone != want {
		t.Errorf("Drain(%s) = %v, want %v", k, gone, want)
	}
}

func TestDrainingListEmpties(t *testing.T) {
	k, one := tcp("10.96.0.50:80"), netip.MustParseAddrPort(first)
	for name, remove := range map[string]func(t *testing.T, m *ipvstest.Memory, r *ipvs.Reconciler){
		"#56 real server removed by hand": func(t *testing.T, m *ipvstest.Memory, _ *ipvs.Reconciler) {
			t.Helper()
			if err := ipvs.Behind(m.Kernel()).DeleteReal(k, one); err != nil {
				t.Fatal(err)
			}
		},
		"#56 virtual server removed by hand": func(t *testing.T, m *ipvstest.Memory, _ *ipvs.Reconciler) {
			t.Helper()
			if err := ipvs.Behind(m.Kernel()).DeleteServer(k); err != nil {
				t.Fatal(err)
			}
		},
		"#56 virtual server removed": func(t *testing.T, _ *ipvstest.Memory, r *ipvs.Reconciler) {
			t.Helper()
			if err := r.Remove(k); err != nil {
				t.Fatal(err)
			}
		},
		"#56 endpoint again": func(t *testing.T, _ *ipvstest.Memory, r *ipvs.Reconciler) {
			t.Helper()
			ensure(t, r, k, first, second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			m := &ipvstest.Memory{}
			r := ipvs.NewReconciler(m.Kernel(), 0)
			ensure(t, r, k, first)
			connect(t, m, k, one, 1)
			ensure(t, r, k, second)
			sweep(t, r, 1)
			remove(t, m, r)
			sweep(t, r, 0)
			before := m.Requests()
			sweep(t, r, 0)
			if n := m.Requests() - before; n != 0 {
				t.Errorf("%d requests of a Sweep with nothing to do, want none", n)
			}
		})
	}
}

// Whatever request fails, one more Ensure makes it right.
func TestEnsureAfterFailure(t *testing.T) {
	k := tcp("10.96.0.50:80")
	broken := errors.New("broken")
	for n := 1; ; n++ {
		m := &ipvstest.Memory{}
		r := ipvs.NewReconciler(m.Kernel(), 0)
		ensure(t, r, k, first, "10.200.0.3:8080")
		connect(t, m, k, netip.MustParseAddrPort(first), 1)
		count := 0
		m.Fail(func(string, ipvs.ServerKey) error {
			if count++; count == n {
				return broken
			}
			return nil
		})
		err := r.Ensure(t.Context(), ipvs.VirtualServer{ServerKey: k, Scheduler: "wrr", Real: reals(second)})
		if err == nil {
			if n < 5 {
				t.Errorf("only %d requests could fail", n-1)
			}
			return
		}
		if !errors.Is(err, broken) {
			t.Fatalf("failure %d: got %v, want %v", n, err, broken)
		}
		m.Fail(nil)
		ensure(t, r, k, second)
		wantWeights(t, r, k, map[string]int{first: 0, second: 1})
		sweep(t, r, 1)
	}
}

func TestEnsureStopsWithContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	m := &ipvstest.Memory{}
	r := ipvs.NewReconciler(m.Kernel(), 0)
	err := r.Ensure(ctx, ipvs.VirtualServer{ServerKey: tcp("10.96.0.50:80"), Real: reals(first)})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Ensure() = %v, want %v", err, context.Canceled)
	}
	wantWeights(t, r, tcp("10.96.0.50:80"), nil)
}

// Writing nothing when all is right, and only the difference otherwise.
func TestEnsureCost(t *testing.T) {
	m, k := &ipvstest.Memory{}, tcp("10.96.0.50:80")
	r := ipvs.NewReconciler(m.Kernel(), 0)
	ensure(t, r, k, first)
	tests := []struct {
		name string
		real []string
		want int
	}{
		{"nothing to do: two reads", []string{first}, 2},
		{"one more: two reads, one write", []string{first, second}, 3},
		{"one less: three reads, weight 0 and removal", []string{second}, 5},
	}
	for _, tt := range tests {
		before := m.Requests()
		ensure(t, r, k, tt.real...)
		if got := m.Requests() - before; got != tt.want {
			t.Errorf("%s: %d requests, want %d", tt.name, got, tt.want)
		}
	}
}
