package ipallocator

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/allocator"
	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// vipkitRanges are those that ServiceCIDRs come and go with.
var vipkitRanges = []string{"10.0.0.0/28", "10.0.0.0/29", "10.0.0.8/29", "10.0.0.0/27", "10.0.0.16/28", "10.0.1.0/30"}

// TestVipkitRanges makes random claims, picks and releases in several ranges, which come and go.
func TestVipkitRanges(t *testing.T) {
	t.Cleanup(shadow.Random())
	g := shadow.NewGenerator(shadow.Options{})
	for range shadow.Rounds(150) {
		upstream, err := newTestMetaAllocator()
		if err != nil {
			t.Fatal(err)
		}
		w := &vipkitWorld{
			t: t, g: g, upstream: upstream, there: map[string]bool{}, released: map[netip.Addr]bool{},
			vipkit: allocator.NewMultiCIDR(allocator.NewMemoryStore(nil), allocator.Options{}),
		}
		for range 80 {
			w.step()
		}
		upstream.Destroy()
	}
}

type vipkitWorld struct {
	t        *testing.T
	g        *shadow.Generator
	upstream *MetaAllocator
	vipkit   *allocator.MultiCIDR
	there    map[string]bool
	released map[netip.Addr]bool // by both, perhaps when no range had it
}

func (w *vipkitWorld) owner() allocator.Owner { return allocator.Owner{Name: "x"} }

func (w *vipkitWorld) step() {
	ctx := context.Background()
	addr := netip.MustParseAddr(fmt.Sprintf("10.0.%d.%d", w.g.Intn(10)/9, w.g.Intn(34)))
	switch w.g.Intn(7) {
	case 0, 1:
		w.changeRange(shadow.Pick(w.g, vipkitRanges...))
	case 2, 3:
		w.claim(ctx, addr)
	case 4, 5:
		w.pick(ctx)
	default:
		w.release(ctx, addr)
	}
}

func (w *vipkitWorld) changeRange(text string) {
	ctx := context.Background()
	obj := newServiceCIDR(fmt.Sprintf("c-%x", text), text)
	client := w.upstream.client.ServiceCIDRs()
	switch {
	case !w.there[text]:
		if w.g.Percent(25) {
			obj.DeletionTimestamp = new(metav1.Now())
			obj.Finalizers = []string{"x"}
		}
		if _, err := client.Create(ctx, obj, metav1.CreateOptions{}); err != nil {
			w.t.Fatal(err)
		}
		w.vipkit.SetServiceCIDR(obj)
		w.there[text] = true
	case w.g.Percent(50):
		if err := client.Delete(ctx, obj.Name, metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
		w.upstream.deleteServiceCIDR(obj)
		w.vipkit.DeleteServiceCIDR(obj.Name)
		w.there[text] = false
	}
	if err := w.upstream.syncAllocators(); err != nil {
		w.t.Fatal(err)
	}
	for _, it := range w.upstream.allocators { // the informer does not run
		it.allocator.ipAddressSynced = func() bool { return true }
	}
}

func (w *vipkitWorld) compare(what string, upstream, vipkit error) bool {
	same := (upstream == nil) == (vipkit == nil)
	if same {
		shadow.Agree("service-cidrs")
	} else {
		shadow.Differ("service-cidrs", shadow.Unexplained, "%s of %v: upstream %v, vipkit %v", what, w.there, upstream, vipkit)
	}
	return same
}

func (w *vipkitWorld) claim(ctx context.Context, addr netip.Addr) {
	theirs, ours := w.upstream.Allocate(addr.AsSlice()), w.vipkit.Claim(ctx, addr, w.owner())
	if theirs != nil && ours == nil && w.released[addr] {
		shadow.Differ("service-cidrs", "released-without-a-range", "%v: %v", addr, theirs)
		w.release(ctx, addr)
		return
	}
	if !w.compare("claim "+addr.String(), theirs, ours) {
		w.release(ctx, addr)
	}
}

func (w *vipkitWorld) release(ctx context.Context, addr netip.Addr) {
	// Upstream does not mind what is not there; what matters is what can be claimed afterwards.
	_ = w.upstream.Release(addr.AsSlice())
	w.released[addr] = true
	if err := w.vipkit.Release(ctx, addr, w.owner()); err != nil {
		w.t.Fatal(err)
	}
}

// pick lets both pick; then vipkit takes upstream's address.
func (w *vipkitWorld) pick(ctx context.Context) {
	ip, theirs := w.upstream.AllocateNext()
	got, ours := w.vipkit.Pick(ctx, v1.IPv4Protocol, w.owner())
	w.compare("pick", theirs, ours)
	if ours == nil {
		if err := w.vipkit.Release(ctx, got, w.owner()); err != nil {
			w.t.Fatal(err)
		}
	}
	if theirs == nil {
		addr, _ := netip.AddrFromSlice(ip)
		w.compare("claim of what upstream picked", nil, w.vipkit.Claim(ctx, addr.Unmap(), w.owner()))
	}
}
