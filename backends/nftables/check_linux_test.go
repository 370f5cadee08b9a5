package nftables

import (
	"errors"
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// TestCheckFinds changes one thing among 2,000 Services.
func TestCheckFinds(t *testing.T) {
	inNetNS(t)
	w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
	guarded := app{name: "guarded", vip: "10.99.0.1", eps: e1, change: both(externals, func(s *service.Service) {
		s.IPv4.SourceRanges = append(s.IPv4.SourceRanges, prefix("192.0.2.0/24"))
	})}
	w.sync(b, merged(many(2_000), with(guarded)))
	for _, what := range []string{
		"flush set ip vipkit restricted-ips",
		"flush set ip vipkit allowed-sources",
		"flush map ip vipkit service-nodeports",
		"flush map ip vipkit nodeport-sizes",
		"flush map ip vipkit picks",
		"flush chain ip vipkit hairpin",
		"flush map ip vipkit service-ips",
		"flush map ip vipkit sizes",
		"flush set ip vipkit cluster-ips",
		"flush map ip vipkit endpoints-tcp",
		"delete element ip vipkit service-ips { 10.96.0.77 . tcp . 80 }",
		"delete element ip vipkit sizes { 10.96.1.78 . tcp . 80 }",
		"delete element ip vipkit cluster-ips { 10.96.2.79 }",
		"delete element ip vipkit endpoints-tcp { 10.96.3.80 . 80 . 7 }",
		"add element ip vipkit cluster-ips { 10.1.1.1 }",
		"add element ip vipkit allowed-sources { 203.0.113.5 . tcp . 80 . 198.51.100.0/24 }",
	} {
		nft(t, what)
		if changed, _ := b.Check(t.Context()); len(changed) == 0 {
			t.Errorf("fault F10 %s: Check finds nothing", what)
		}
		w.restart(b)
		if changed, err := b.Check(t.Context()); len(changed) > 0 || err != nil {
			t.Errorf("%s: after repair Check = %q, %v", what, changed, err)
		}
	}
	w.wantSettled(Options{})
}

// TestCheckInParts has more elements than one Check reads.
func TestCheckInParts(t *testing.T) {
	start := func(t *testing.T, checked int) (*Backend, *reader) {
		t.Helper()
		inNetNS(t)
		w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
		w.sync(b, many(300)) // of 3,000 endpoints
		r := &reader{kernel: b.kernel}
		b.kernel, b.checked = r, checked
		return b, r
	}
	t.Run("fault F10 all is read before it counts as verified", func(t *testing.T) {
		b, r := start(t, 3_500)
		nft(t, "add table ip other")
		for range 4 {
			if changed, err := b.Check(t.Context()); len(changed) > 0 || err != nil {
				t.Errorf("Check = %q, %v", changed, err)
			}
		}
		if now, err := b.kernel.generation(); err != nil || b.verified != now {
			t.Errorf("verified at %d, now %d, %v", b.verified, now, err)
		}
		*r = reader{kernel: r.kernel}
		if changed, err := b.Check(t.Context()); len(changed) > 0 || err != nil || r.tables+r.dumps+r.lookups > 0 {
			t.Errorf("then Check = %q, %v, and reads %+v", changed, err, *r)
		}
	})
	t.Run("fault F10 others commit all the time", func(t *testing.T) {
		b, _ := start(t, 3_000)
		nft(t, "delete element ip vipkit sizes { 10.96.0.77 . tcp . 80 }")
		for range 4 {
			nft(t, "add table ip other")
			nft(t, "delete table ip other")
			if changed, _ := b.Check(t.Context()); len(changed) > 0 {
				return
			}
		}
		t.Error("4 Checks found nothing")
	})
	t.Run("fault F10 what is sampled never counts as verified", func(t *testing.T) {
		b, _ := start(t, 1_000)
		nft(t, "delete element ip vipkit endpoints-tcp { 10.96.0.77 . 80 . 3 }")
		for range 2_000 { // each sees a twelfth of the map
			if changed, _ := b.Check(t.Context()); len(changed) > 0 {
				return
			}
		}
		t.Error("2,000 Checks found nothing")
	})
}

// A blind kernel cannot be read.
type blind struct {
	kernel
	which int // of its methods
}

var errBlind = errors.New("cannot read")

func (k blind) generation() (uint32, error) {
	if k.which == 0 {
		return 0, errBlind
	}
	return k.kernel.generation()
}

func (k blind) read(f *family, table string) (*contents, error) {
	if k.which == 1 {
		return nil, errBlind
	}
	return k.kernel.read(f, table)
}

func (k blind) elements(f *family, table string, b box) ([]element, error) {
	if k.which == 2 {
		return nil, errBlind
	}
	return k.kernel.elements(f, table, b)
}

func (k blind) element(f *family, table string, b box, key key) (element, bool, error) {
	if k.which == 3 {
		return element{}, false, errBlind
	}
	return k.kernel.element(f, table, b, key)
}

// TestCheckCannotRead wants that an error is none to mend: a full Sync would not help.
func TestCheckCannotRead(t *testing.T) {
	inNetNS(t)
	w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
	w.sync(b, merged(many(50), with(everything()...)))
	whole := b.kernel
	b.checked = 100 // samples, too
	nft(t, "add table ip other")
	for which := range 4 {
		b.kernel = blind{whole, which}
		if changed, err := b.Check(t.Context()); len(changed) > 0 || !errors.Is(err, errBlind) {
			t.Errorf("fault F15 method %d fails: Check = %q, %v, want no change and the error", which, changed, err)
		}
	}
	b.kernel = whole
	if changed, err := b.Check(t.Context()); len(changed) > 0 || err != nil {
		t.Errorf("Check = %q, %v", changed, err)
	}
}

// TestRestartCannotRead wants that tables which cannot be read are not replaced: they may be right.
func TestRestartCannotRead(t *testing.T) {
	inNetNS(t)
	w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
	w.sync(b, with(everything()...))
	before := nft(t, "list", "ruleset")
	for _, which := range []int{1, 2} {
		b = newBackend(t, Options{})
		b.kernel = blind{b.kernel, which}
		w.cursor.Reset()
		if err := w.try(b, plan.Input{}); !errors.Is(err, errBlind) {
			t.Errorf("fault F15 method %d fails: Sync = %v", which, err)
		}
		if after := nft(t, "list", "ruleset"); after != before {
			t.Errorf("fault F15 method %d fails: the tables are others", which)
		}
	}
	w.wantSettled(Options{})
}
