package portallocator

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/util/net"

	api "k8s.io/kubernetes/pkg/apis/core"

	"github.com/vipkit/vipkit/allocator"
	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// TestVipkitRandom makes random claims, picks and releases in pools of both.
func TestVipkitRandom(t *testing.T) {
	t.Cleanup(shadow.Random())
	g := shadow.NewGenerator(shadow.Options{})
	for _, text := range []string{
		"30000-32767", "30000-30015", "30000-30016", "30000-30017", "30000-30127", "30000+100", "100-102", "5-5", "1-65535",
		"32000-32031", "30000-30512",
	} {
		for range shadow.Rounds(5) {
			vipkitPorts(t, g, text)
		}
	}
}

func vipkitPorts(t *testing.T, g *shadow.Generator, text string) {
	pr := net.ParsePortRangeOrDie(text)
	upstream, err := NewInMemory(*pr)
	if err != nil {
		t.Fatal(err)
	}
	r, err := allocator.ParsePortRange(text)
	if err != nil {
		t.Fatal(err)
	}
	pool := allocator.NewPortPool(r, allocator.Options{})
	owner := allocator.Owner{Name: "x"}
	offset := calculateRangeOffset(*pr)
	p := shadow.Pools{
		Area: "allocators", Name: text,
		Upstream: vipkitUpstream(upstream),
		Vipkit: shadow.Pool{
			Claim: func(n int) error { return pool.Claim(uint16(n), owner) },
			Pick: func() (int, error) {
				n, err := pool.Pick(owner)
				return int(n), err
			},
			Release: func(n int) error { return pool.Release(uint16(n), owner) },
			Has:     func(n int) bool { return pool.Has(uint16(n)) },
			Free:    func() int { return int(pool.Stats().Free) },
		},
		IsStatic: func(n int) bool { return n < pr.Base+offset },
	}
	for range min(3*pr.Size+20, 9000) {
		p.Step(g, min(max(pr.Base-2+g.Intn(pr.Size+4), 0), 65535))
	}
	var theirs api.RangeAllocation
	if err := upstream.Snapshot(&theirs); err != nil {
		t.Fatal(err)
	}
	ours, err := pool.Allocation()
	if err != nil {
		t.Fatal(err)
	}
	p.Compare("bitmap", theirs.Range+string(theirs.Data), ours.Range+string(ours.Data))
}

func vipkitUpstream(a *PortAllocator) shadow.Pool {
	return shadow.Pool{
		Claim: a.Allocate, Pick: a.AllocateNext, Release: a.Release, Has: a.Has, Free: a.Free,
	}
}

// TestVipkitDryRun compares dry runs.
func TestVipkitDryRun(t *testing.T) {
	t.Cleanup(shadow.Random())
	g := shadow.NewGenerator(shadow.Options{})
	for range shadow.Rounds(20000) {
		vipkitDryRun(t, g)
	}
}

func vipkitDryRun(t *testing.T, g *shadow.Generator) {
	upstream, err := NewInMemory(*net.ParsePortRangeOrDie("10000-10200"))
	if err != nil {
		t.Fatal(err)
	}
	pool := allocator.NewPortPool(allocator.PortRange{First: 10000, Last: 10200}, allocator.Options{})
	for range 5 {
		n := 10000 + g.Intn(8)
		if upstream.Allocate(n) == nil {
			if err := pool.Claim(uint16(n), allocator.Owner{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx := context.Background()
	op := StartOperation(upstream, true)
	defer op.Finish()
	dry := pool.Source().DryRun(allocator.AsUpstream)
	p := shadow.Pools{
		Area: "dry-runs", Name: "10000-10200",
		Upstream: shadow.Pool{Claim: op.Allocate, Pick: op.AllocateNext},
		Vipkit: shadow.Pool{
			Claim: func(n int) error { return dry.Claim(ctx, uint16(n), allocator.Owner{}) },
			Pick: func() (int, error) {
				n, err := dry.Pick(ctx, allocator.Owner{})
				return int(n), err
			},
		},
	}
	for range 5 {
		if g.Percent(50) {
			p.Claim(9998 + g.Intn(12))
		} else {
			p.SamePick()
		}
	}
}
