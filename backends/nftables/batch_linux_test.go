package nftables

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// merged returns an input with the Services of all.
func merged(all ...plan.Input) plan.Input {
	out := with()
	for _, in := range all {
		maps.Copy(out.Services, in.Services)
		maps.Copy(out.Endpoints, in.Endpoints)
	}
	return out
}

// batchSteps are changes of many elements and of few, with Services of every kind.
func batchSteps() []plan.Input {
	udp := func(s *service.Service) { s.Ports[0].Protocol = corev1.ProtocolUDP }
	apps := everything()
	fewer := everything()
	for i := range fewer {
		fewer[i].eps = "10.180.1.1:8080@n2 [fd00:10:180:1::1]:8080@n2"
	}
	return []plan.Input{
		merged(many(200), with(apps...)),
		with(app{name: "plain", vip: "10.96.0.10 fd00:96::10", eps: dual + " 10.180.0.9:80@n1"}),
		with(app{name: "plain", vip: "10.96.0.10 fd00:96::10", eps: dual}),
		with(app{name: "u", vip: "10.96.0.17 fd00:96::17", eps: dual, change: udp}),
		with(fewer...),
		with(app{name: "elsewhere", gone: true}, app{name: "plain", vip: "10.96.0.15", eps: two}),
		merged(many(150), with(app{name: "plain"})),
		with(apps...),
	}
}

// A listing is what nft says of our tables, without the hashes of rules.
func listing(t *testing.T) string {
	t.Helper()
	return nft(t, "list", "ruleset")
}

// TestBatchesEqualNFT takes the same steps with and without batches. What nft adds to and removes from
// maps that it has to read first is what was meant, whatever its version.
func TestBatchesEqualNFT(t *testing.T) {
	run := func(t *testing.T, noBatches error) (lists []string) {
		t.Helper()
		inNetNS(t)
		w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
		b.noBatches = noBatches
		for _, in := range batchSteps() {
			w.sync(b, in)
			lists = append(lists, listing(t))
			w.wantSettled(Options{})
		}
		if !errors.Is(b.noBatches, noBatches) {
			t.Errorf("batches given up: %v", b.noBatches)
		}
		return lists
	}
	var want, got []string
	t.Run("fault F09 nft", func(t *testing.T) { want = run(t, errors.ErrUnsupported) })
	t.Run("batches", func(t *testing.T) { got = run(t, nil) })
	if len(got) != len(want) {
		t.Fatalf("%d steps, want %d", len(got), len(want))
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("step %d: with batches\n%s\nwith nft\n%s", i, got[i], want[i])
		}
	}
}

// A counter counts what goes through nft and past it, and can refuse batches.
type counter struct {
	nftProgram
	runs, batches int
	refuse        error
}

func (c *counter) run(ctx context.Context, text []byte) error {
	c.runs++
	return c.nftProgram.run(ctx, text)
}

func (c *counter) send(b *batch) error {
	c.batches++
	if c.refuse != nil {
		return c.refuse
	}
	return c.nftProgram.send(b)
}

func counting(b *Backend) *counter {
	c := &counter{nftProgram: nftProgram{b.opts.NFT, b.opts.Timeout}}
	b.runner = c
	return c
}

func TestBatches(t *testing.T) {
	inNetNS(t)
	w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
	c := counting(b)
	w.sync(b, many(200))
	if c.runs != 1 || c.batches != 1 {
		t.Errorf("first sync of 200 Services: %d runs of nft and %d batches, want one of each", c.runs, c.batches)
	}
	w.sync(b, merged(with(app{name: "svc77", vip: "10.96.0.77", eps: two})))
	if c.runs != 1 || c.batches != 2 {
		t.Errorf("other endpoints: %d runs of nft and %d batches more, want a batch only", c.runs-1, c.batches-1)
	}
	if changed, err := b.Check(t.Context()); len(changed) > 0 || err != nil {
		t.Errorf("Check = %q, %v", changed, err)
	}
}

func TestBatchRefused(t *testing.T) {
	t.Run("#78 another endpoint in its place", func(t *testing.T) {
		inNetNS(t)
		w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
		w.sync(b, many(200))
		nft(t, "add element ip vipkit endpoints-tcp { 10.96.0.1 . 80 . 10 : 192.0.2.1 . 80 }")
		c := counting(b)
		twelve := app{name: "svc1", vip: "10.96.0.1"}
		for i := range 12 {
			twelve.eps += fmt.Sprintf(" 10.181.0.%d:80", i)
		}
		err := w.try(b, with(twelve, app{name: "svc2", vip: "10.96.0.2", eps: two}, app{name: "svc3", gone: true}))
		var partial *plan.PartialError
		if !errors.As(err, &partial) || len(partial.Ports) != 1 || !strings.Contains(err.Error(), "10.96.0.1 . 80 . 10") {
			t.Fatalf("got %v, want a PartialError about one port and its element", err)
		}
		for k, err := range partial.Ports {
			if k.Name != "svc1" {
				t.Errorf("%v: %v, want svc1", k, err)
			}
		}
		if b.noBatches != nil || c.batches == 0 {
			t.Errorf("%d batches, given up: %v", c.batches, b.noBatches)
		}
		out := listing(t)
		if !strings.Contains(out, "10.96.0.2 . tcp . 80 comment \"ns1/svc2:p80\" : goto row-cCC") || strings.Contains(out, "10.96.0.3 . tcp") {
			t.Error("the other Services are not as they should be")
		}
		w.adopted(Options{}) // heals
	})
	t.Run("#67 nft could write it", func(t *testing.T) {
		inNetNS(t)
		w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
		c := counting(b)
		c.refuse = errRefused
		w.sync(b, many(200))
		if !errors.Is(b.noBatches, errRefused) {
			t.Errorf("batches are trusted: %v", b.noBatches)
		}
		tried := c.batches
		w.sync(b, with(app{name: "svc77", vip: "10.96.0.77", eps: two}))
		if c.batches != tried {
			t.Error("another batch after nft could write what a batch could not")
		}
		w.wantSettled(Options{})
	})
}
