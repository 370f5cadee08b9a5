package nftables

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/proxy/plan"
)

// An image is what our tables mean, whatever their past: which slot an endpoint has is left
// out, and so are shared chains that nothing names, and chains that were emptied.
type image map[string]string

// imageOf reads the tables of the namespace of the calling thread.
func imageOf(tb testing.TB) image {
	tb.Helper()
	im := image{}
	for _, f := range families() {
		found, err := netlinkKernel{}.read(f, "vipkit")
		if err != nil {
			tb.Fatal(err)
		}
		if found == nil {
			continue
		}
		im[f.nft] = "table"
		for name, print := range found.chains {
			if _, shared := parseShared(name); !shared && print != "" {
				im[f.nft+" chain "+name] = print
			}
		}
		im.boxes(tb, f, found)
	}
	return im
}

func (im image) boxes(tb testing.TB, f *family, found *contents) {
	tb.Helper()
	known := make(map[string]box)
	for _, b := range boxes() {
		known[b.name] = b
	}
	for name, info := range found.boxes {
		im[f.nft+" box "+name] = fmt.Sprint(info)
		b, ok := known[name]
		if !ok {
			b, ok = privateBox(name, 0)
		}
		if !ok || b.dynamic {
			continue
		}
		elements, err := netlinkKernel{}.elements(f, "vipkit", b)
		if err != nil {
			tb.Fatal(err)
		}
		im.elements(tb, f, found, elements)
	}
}

// elements adds what the elements of one box say. A pool is the sorted list of its endpoints.
func (im image) elements(tb testing.TB, f *family, found *contents, elements []element) {
	tb.Helper()
	pools := make(map[string][]string)
	slots := make(map[string][]uint32)
	for _, el := range elements {
		im.verdict(tb, f, found, el)
		if strings.HasSuffix(el.id.box, "picks") {
			continue // more sizes than are in use
		}
		wantPick(tb, f, el)
		k, isSlot := el.id.key, strings.Contains(el.id.box, "endpoints-") || strings.Contains(el.id.box, "-slots-")
		if !isSlot {
			im[fmt.Sprint(f.nft, " ", el.id)] = fmt.Sprint(el.value, " ", el.comment)
			continue
		}
		slot := k.n % localSlots
		k.n -= slot
		pool := fmt.Sprint(f.nft, " pool ", elementID{el.id.box, k})
		pools[pool] = append(pools[pool], fmt.Sprint(el.value))
		slots[pool] = append(slots[pool], slot)
	}
	for name, pool := range pools {
		slices.Sort(pool)
		slices.Sort(slots[name])
		im[name] = fmt.Sprint(pool)
		if last := slots[name][len(pool)-1]; int(last) != len(pool)-1 {
			tb.Errorf("%s has %d endpoints and the slot %d", name, len(pool), last)
		}
	}
}

// verdict looks whether a shared chain that an element names is what its name says.
func (im image) verdict(tb testing.TB, f *family, found *contents, el element) {
	tb.Helper()
	_, name, _ := strings.Cut(el.value.verdict, " ")
	if _, shared := parseShared(name); !shared {
		return
	}
	if !strings.HasSuffix(el.id.box, "picks") {
		im[f.nft+" chain "+name] = found.chains[name]
	}
	if found.chains[name] == "" {
		tb.Errorf("%s names the chain %s, which is empty", el.id.box, name)
	}
}

// wantPick looks whether a size leads to a chain.
func wantPick(tb testing.TB, f *family, el element) {
	tb.Helper()
	for _, in := range places() {
		if el.id.box != in.sizes() {
			continue
		}
		want := shared{kind: pickChain, place: in, proto: el.id.key.proto, size: int(el.value.number)}.entry()
		at := box{name: in.picks(), key: []field{fieldProto, fieldNumber}, value: verdictValue}
		if have, ok, err := (netlinkKernel{}).element(f, "vipkit", at, want.id.key); err != nil || !ok || have.value != want.value {
			tb.Errorf("%v has %d endpoints, and nothing leads to %s: %v, %v", el.id, el.value.number, want.value.verdict, have, err)
		}
	}
}

// fresh returns the image that a plan has in an empty namespace.
func fresh(t *testing.T, p *plan.Plan) image {
	t.Helper()
	var im image
	err := newNamespace(t).Do(func() error {
		if err := newBackend(t, Options{}).Sync(t.Context(), plan.Full(p)); err != nil {
			return err
		}
		im = imageOf(t)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return im
}

func newNamespace(t *testing.T) *netlab.Namespace {
	t.Helper()
	ns, err := netlab.NewNamespace()
	if err != nil {
		skipOrFail(t, err)
	}
	t.Cleanup(func() {
		if err := ns.Close(); err != nil {
			t.Error(err)
		}
	})
	return ns
}

// wantFresh compares the tables of the calling thread's namespace with those that
// the plan makes in an empty one.
func (w *world) wantFresh(t *testing.T) {
	t.Helper()
	if d := cmp.Diff(fresh(t, w.plan), imageOf(t)); d != "" {
		t.Errorf("the tables differ from those of a fresh build (-fresh +got):\n%s", d)
	}
}
