package ipvs_test

import (
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/vipkit/vipkit/backends/ipvs"
)

func TestPrepare(t *testing.T) {
	kernelRig(t)
	b, err := ipvs.New(ipvs.Options{StrictARP: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(b.Warnings(t.Context(), nil)) == 0 {
		t.Error("no warnings in a new namespace")
	}
	changed, err := b.Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(changed) == 0 {
		t.Error("nothing was reported as changed")
	}
	for name, want := range map[string]string{
		"net/ipv4/vs/conntrack": "1", "net/ipv4/vs/expire_nodest_conn": "1", "net/ipv4/vs/expire_quiescent_template": "1",
		"net/ipv4/conf/all/arp_ignore": "1", "net/ipv4/conf/all/arp_announce": "2", // G20
	} {
		text, err := os.ReadFile("/proc/sys/" + name)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(string(text)); got != want {
			t.Errorf("G20 %s = %s, want %s", name, got, want)
		}
	}
	if changed, err := b.Prepare(t.Context()); len(changed) > 0 || err != nil {
		t.Errorf("second Prepare changed %v, %v", changed, err)
	}
	if w := b.Warnings(t.Context(), nil); len(w) > 0 {
		t.Errorf("warnings after Prepare: %v", w)
	}
}

// #55: a client with affinity leaves a real server that drains, though its template lives.
func TestPersistenceLeavesDraining(t *testing.T) {
	t.Run("#55 persistence and weight 0", func(t *testing.T) {
		rig := kernelRig(t)
		b, err := ipvs.New(ipvs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, k := ipvs.NewReconciler(rig.kernel, 0), tcp("10.96.0.50:80")
		balance := func(addrs ...string) {
			t.Helper()
			v := ipvs.VirtualServer{ServerKey: k, Persistence: 3 * time.Hour, Real: reals(addrs...)}
			if err := r.Ensure(t.Context(), v); err != nil && !errors.Is(err, os.ErrExist) {
				t.Fatal(err)
			}
		}
		balance(first)
		rig.connect(t, k, netip.MustParseAddrPort(first))
		balance(second)
		wantWeights(t, r, k, map[string]int{first: 0, second: 1})
		rig.connect(t, k, netip.MustParseAddrPort(second)) // fails if it is counted at the first
	})
}
