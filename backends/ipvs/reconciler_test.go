package ipvs_test

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/backends/ipvs/ipvstest"
)

func TestEnsure(t *testing.T) {
	weighted := reals("10.200.0.1:8080", "10.200.0.2:8080")
	weighted[1].Weight = 7
	tests := []struct {
		name string
		want ipvs.VirtualServer
	}{
		{"G01 two real servers", ipvs.VirtualServer{ServerKey: tcp("10.96.0.10:80"), Real: reals("10.200.0.1:8080", "10.200.0.2:8080")}},
		{"G02 persistence", ipvs.VirtualServer{ServerKey: tcp("10.96.0.10:80"), Persistence: 10800 * time.Second}},
		{"G03 source hash with port", ipvs.VirtualServer{ServerKey: udp("10.96.0.10:53"), Scheduler: "mh", HashPort: true}},
		{"#57 addresses with zero bytes", ipvs.VirtualServer{ServerKey: tcp("10.0.0.0:80"), Real: reals("10.0.0.0:8080", "10.0.0.1:8080")}},
		{"mh with fallback", ipvs.VirtualServer{ServerKey: udp("10.96.0.10:53"), Scheduler: "mh", HashFallback: true}},
		{"weights", ipvs.VirtualServer{ServerKey: tcp("10.96.0.10:80"), Scheduler: "wrr", Real: weighted}},
		{"#57 G24 IPv6", ipvs.VirtualServer{ServerKey: tcp("[fd00:96::10]:80"), Real: reals("[fd00:200::1]:8080", "[fd00:200::2]:8080")}},
		{"mark", ipvs.VirtualServer{
			ServerKey: ipvs.ServerKey{Mark: 0x56000001, Family: corev1.IPv6Protocol}, Real: reals("[fd00:200::1]:8080"),
		}},
		{"G07 SCTP", ipvs.VirtualServer{
			ServerKey: ipvs.ServerKey{Addr: tcp("192.0.2.10:30080").Addr, Protocol: corev1.ProtocolSCTP}, Real: reals("10.200.0.1:8080"),
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for name, start := range rigs() {
				t.Run(name, func(t *testing.T) {
					rig := start(t)
					r := ipvs.NewReconciler(rig.kernel, 0)
					for range 2 {
						if err := r.Ensure(t.Context(), tt.want); err != nil {
							t.Fatal(err)
						}
					}
					wantServer(t, r, tt.want)
				})
			}
		})
	}
}

// wantServer compares what is there with want.
func wantServer(t *testing.T, r *ipvs.Reconciler, want ipvs.VirtualServer) {
	t.Helper()
	got, err := r.Get(want.ServerKey)
	if err != nil {
		t.Fatal(err)
	}
	if want.Scheduler == "" {
		want.Scheduler = "rr"
	}
	if want.Mark == 0 {
		want.Family = corev1.IPv4Protocol
		if want.Addr.Addr().Is6() {
			want.Family = corev1.IPv6Protocol
		}
	}
	want.Connectionless = want.Protocol == corev1.ProtocolUDP
	if diff := cmp.Diff(want, got, compareAddrs, unexported, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("virtual server (-want +got):\n%s", diff)
	}
}

func TestEnsureSchedulers(t *testing.T) {
	for name, start := range rigs() {
		t.Run(name, func(t *testing.T) {
			rig := start(t)
			r := ipvs.NewReconciler(rig.kernel, 0)
			for _, name := range []string{"rr", "wrr", "lc", "wlc", "lblc", "lblcr", "sh", "dh", "sed", "nq", "mh", "fo", "ovf"} {
				want := ipvs.VirtualServer{ServerKey: tcp("10.96.0.10:80"), Scheduler: name, Real: reals("10.200.0.1:8080")}
				if err := r.Ensure(t.Context(), want); err != nil {
					t.Errorf("scheduler %s: %v", name, err)
					continue
				}
				wantServer(t, r, want)
			}
		})
	}
}

func TestEnsureChangesInPlace(t *testing.T) {
	k := tcp("10.96.0.10:80")
	steps := []struct {
		name string
		want ipvs.VirtualServer
	}{
		{"first", ipvs.VirtualServer{ServerKey: k, Persistence: 10800 * time.Second, Real: reals("10.200.0.1:8080")}},
		{"#11 shorter affinity", ipvs.VirtualServer{ServerKey: k, Persistence: time.Minute, Real: reals("10.200.0.1:8080")}},
		{"#11 no affinity", ipvs.VirtualServer{ServerKey: k, Real: reals("10.200.0.1:8080")}},
		{"#11 affinity again", ipvs.VirtualServer{ServerKey: k, Persistence: time.Minute, Real: reals("10.200.0.1:8080")}},
		{"scheduler", ipvs.VirtualServer{ServerKey: k, Scheduler: "wlc", Real: reals("10.200.0.1:8080")}},
		{"flags", ipvs.VirtualServer{ServerKey: k, Scheduler: "mh", HashPort: true, HashFallback: true, Real: reals("10.200.0.1:8080")}},
	}
	for name, start := range rigs() {
		t.Run(name, func(t *testing.T) {
			rig := start(t)
			r := ipvs.NewReconciler(rig.kernel, 0)
			var end func()
			for _, s := range steps {
				if err := r.Ensure(t.Context(), s.want); err != nil {
					t.Fatalf("%s: %v", s.name, err)
				}
				if end == nil {
					end = rig.connect(t, k, s.want.Real[0].Addr)
				}
				got, err := r.Get(k)
				if err != nil {
					t.Fatal(err)
				}
				if got.Persistence != s.want.Persistence || len(got.Real) != 1 || got.Real[0].Active+got.Real[0].Inactive != 1 {
					t.Errorf("%s: got %+v, want persistence %s and the connection as it was", s.name, got, s.want.Persistence)
				}
			}
			end()
		})
	}
}

func TestEnsureUnknownScheduler(t *testing.T) {
	for name, start := range rigs() {
		t.Run(name, func(t *testing.T) {
			rig := start(t)
			r := ipvs.NewReconciler(rig.kernel, 0)
			err := r.Ensure(t.Context(), ipvs.VirtualServer{ServerKey: tcp("10.96.0.10:80"), Scheduler: "nosuch"})
			if !errors.Is(err, errors.ErrUnsupported) {
				t.Errorf("G04 scheduler that the kernel lacks: got %v, want an error that is ErrUnsupported", err)
			}
		})
	}
}

func TestEnsureRefuses(t *testing.T) {
	twice := reals("10.200.0.1:8080", "10.200.0.1:8080")
	heavy := reals("10.200.0.1:8080")
	heavy[0].Weight = 65536
	negative := reals("10.200.0.1:8080")
	negative[0].Weight = -1
	for name, v := range map[string]ipvs.VirtualServer{
		"no name":                {},
		"mark without family":    {ServerKey: ipvs.ServerKey{Mark: 1}},
		"no protocol":            {ServerKey: ipvs.ServerKey{Addr: tcp("10.96.0.10:80").Addr}},
		"other family":           {ServerKey: tcp("10.96.0.10:80"), Real: reals("[fd00::1]:80")},
		"twice":                  {ServerKey: tcp("10.96.0.10:80"), Real: twice},
		"too heavy":              {ServerKey: tcp("10.96.0.10:80"), Real: heavy},
		"negative weight":        {ServerKey: tcp("10.96.0.10:80"), Real: negative},
		"negative persistence":   {ServerKey: tcp("10.96.0.10:80"), Persistence: -1},
		"real server of nothing": {ServerKey: tcp("10.96.0.10:80"), Real: []ipvs.RealServer{{Weight: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &ipvstest.Memory{}
			if err := ipvs.NewReconciler(m.Kernel(), 0).Ensure(t.Context(), v); err == nil {
				t.Error("no error")
			}
			if n := m.Requests(); n != 0 {
				t.Errorf("%d requests, want none", n)
			}
		})
	}
}

func TestEnsureMapped(t *testing.T) {
	m := &ipvstest.Memory{}
	r := ipvs.NewReconciler(m.Kernel(), 0)
	ensure(t, r, tcp("[::ffff:10.96.0.10]:80"), "[::ffff:10.200.0.1]:8080")
	wantWeights(t, r, tcp("10.96.0.10:80"), map[string]int{"10.200.0.1:8080": 1})
}

func TestRemove(t *testing.T) {
	for name, start := range rigs() {
		t.Run(name, func(t *testing.T) {
			rig := start(t)
			r := ipvs.NewReconciler(rig.kernel, 0)
			other := tcp("10.96.0.11:80")
			ensure(t, r, tcp("10.96.0.10:80"), "10.200.0.1:8080")
			ensure(t, r, other, "10.200.0.1:8080")
			for range 2 {
				if err := r.Remove(tcp("10.96.0.10:80")); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := r.Get(tcp("10.96.0.10:80")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("Get() = %v, want an error that is ErrNotExist", err)
			}
			wantWeights(t, r, other, map[string]int{"10.200.0.1:8080": 1})
		})
	}
}

func TestKernelErrors(t *testing.T) {
	for name, start := range rigs() {
		t.Run(name, func(t *testing.T) {
			rig := start(t)
			k, none := tcp("10.96.0.10:80"), tcp("10.96.0.99:80")
			k.Family, none.Family = corev1.IPv4Protocol, corev1.IPv4Protocol
			v := ipvs.VirtualServer{ServerKey: k, Scheduler: "rr"}
			s, other := reals("10.200.0.1:8080")[0], reals("10.200.0.2:8080")[0]
			if err := errors.Join(ipvs.Behind(rig.kernel).AddServer(v), ipvs.Behind(rig.kernel).AddReal(k, s)); err != nil {
				t.Fatal(err)
			}
			_, get := ipvs.Behind(rig.kernel).Server(none)
			for name, tt := range map[string]struct{ got, want error }{
				"add server twice":       {ipvs.Behind(rig.kernel).AddServer(v), fs.ErrExist},
				"add real twice":         {ipvs.Behind(rig.kernel).AddReal(k, s), fs.ErrExist},
				"get server":             {get, fs.ErrNotExist},
				"set server":             {ipvs.Behind(rig.kernel).SetServer(ipvs.VirtualServer{ServerKey: none, Scheduler: "rr"}), fs.ErrNotExist},
				"delete server":          {ipvs.Behind(rig.kernel).DeleteServer(none), fs.ErrNotExist},
				"add real to nothing":    {ipvs.Behind(rig.kernel).AddReal(none, s), fs.ErrNotExist},
				"set real of nothing":    {ipvs.Behind(rig.kernel).SetReal(none, s), fs.ErrNotExist},
				"set real":               {ipvs.Behind(rig.kernel).SetReal(k, other), fs.ErrNotExist},
				"delete real of nothing": {ipvs.Behind(rig.kernel).DeleteReal(none, s.Addr), fs.ErrNotExist},
				"delete real":            {ipvs.Behind(rig.kernel).DeleteReal(k, other.Addr), fs.ErrNotExist},
			} {
				if !errors.Is(tt.got, tt.want) {
					t.Errorf("%s: got %v, want %v", name, tt.got, tt.want)
				}
			}
		})
	}
}

func TestTimeouts(t *testing.T) {
	for name, start := range rigs() {
		t.Run(name, func(t *testing.T) {
			rig := start(t)
			before, err := ipvs.Behind(rig.kernel).Timeouts()
			if err != nil {
				t.Fatal(err)
			}
			if err = ipvs.Behind(rig.kernel).SetTimeouts(ipvs.Timeouts{UDP: 90 * time.Second}); err != nil {
				t.Fatal(err)
			}
			got, err := ipvs.Behind(rig.kernel).Timeouts()
			if err != nil {
				t.Fatal(err)
			}
			before.UDP = 90 * time.Second
			if got != before {
				t.Errorf("G27 only the UDP timeout is set: got %v, want %v", got, before)
			}
		})
	}
}
