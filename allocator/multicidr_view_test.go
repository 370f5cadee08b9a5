package allocator_test

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"sync"
	"testing"

	"github.com/vipkit/vipkit/allocator"
)

// A yieldingStore lets others run before and after each call, as a store on the
// other side of a network does.
type yieldingStore struct{ allocator.Store }

func (s yieldingStore) Create(ctx context.Context, a netip.Addr, o allocator.Owner) error {
	runtime.Gosched()
	defer runtime.Gosched()
	return s.Store.Create(ctx, a, o)
}

func (s yieldingStore) Delete(ctx context.Context, a netip.Addr, o allocator.Owner) error {
	runtime.Gosched()
	defer runtime.Gosched()
	return s.Store.Delete(ctx, a, o)
}

func TestViewIsNeverTooSmall(t *testing.T) {
	t.Run("fault F20 whatever the order, what is in the store is in use for the MultiCIDR", func(t *testing.T) {
		for range 200 {
			mem := allocator.NewMemoryStore(nil)
			m := allocator.NewMultiCIDR(yieldingStore{mem}, allocator.Options{})
			addCIDR(t, m, raceRange)
			var wg sync.WaitGroup
			for g := range 8 {
				wg.Go(func() { claimAndRelease(t, m, owner(string(rune('a'+g)))) })
			}
			wg.Wait()
			list, _ := mem.List(t.Context())
			if got := m.Ranges(v4)[0].Stats.Used; got < uint64(len(list)) {
				t.Fatalf("%d addresses in use, the store has %v", got, list)
			}
		}
	})
}

// claimAndRelease quarrels about four addresses.
func claimAndRelease(t *testing.T, m *allocator.MultiCIDR, o allocator.Owner) {
	t.Helper()
	any4 := func() netip.Addr { return netip.AddrFrom4([4]byte{10, 0, 0, byte(1 + rand.IntN(4))}) }
	for i := range 20 {
		a := any4()
		if m.Claim(t.Context(), a, o) == nil && i%3 > 0 {
			_ = m.Release(t.Context(), a, o)
		}
		_ = m.Release(t.Context(), any4(), o) // mostly of somebody else
		if i == 10 {
			if err := m.Refresh(t.Context()); err != nil {
				t.Error(err)
			}
		}
	}
}
