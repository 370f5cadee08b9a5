package main

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/backends/ipvs/ipvstest"
)

const (
	first  = "192.0.2.11:6443"
	second = "192.0.2.12:6443"
)

// A server that goes drains, comes back with its connections, and none is given up if all
// are silent.
func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		var silent atomic.Pointer[map[string]bool]
		silent.Store(&map[string]bool{})
		memory := &ipvstest.Memory{}
		b := &balancer{
			address: netip.MustParseAddrPort("10.103.97.2:6443"), interval: 5 * time.Second, out: &out,
			reconciler: ipvs.NewReconciler(memory.Kernel(), 0),
			answers:    func(_ context.Context, server netip.AddrPort) bool { return !(*silent.Load())[server.String()] },
		}
		if err := errors.Join(b.addServer(first), b.addServer(second)); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- b.follow(ctx) }()
		synctest.Wait()
		b.wantWeights(t, 1, 1)
		v, err := b.reconciler.Get(b.key())
		if err != nil {
			t.Fatal(err)
		}
		if err := memory.Connect(v.ServerKey, b.servers[1], 1, 0); err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			silent map[string]bool
			want   []int
		}{
			{map[string]bool{second: true}, []int{1, 0}},
			{map[string]bool{}, []int{1, 1}},
			{map[string]bool{first: true, second: true}, []int{1, 1}},
			{map[string]bool{first: true}, []int{1}}, // the second is left
		} {
			silent.Store(&tt.silent)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			b.wantWeights(t, tt.want...)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if want := "10.103.97.2:6443: 1 servers, 1 draining\n"; !bytes.Contains(out.Bytes(), []byte(want)) {
			t.Errorf("output %q has no %q", &out, want)
		}
	})
}

func (b *balancer) wantWeights(t *testing.T, want ...int) {
	t.Helper()
	v, err := b.reconciler.Get(b.key())
	if err != nil {
		t.Fatal(err)
	}
	if len(v.Real) != len(want) {
		t.Fatalf("real servers %+v, want %d", v.Real, len(want))
	}
	for i, r := range v.Real {
		if r.Weight != want[i] {
			t.Errorf("%s has weight %d, want %d", r.Addr, r.Weight, want[i])
		}
	}
}
