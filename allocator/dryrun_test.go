package allocator_test

import (
	"testing"

	"github.com/vipkit/vipkit/allocator"
)

func TestUpstreamDryRunOfAddresses(t *testing.T) {
	ctx := t.Context()
	p := newPool(t, "10.0.0.0/24", allocator.Options{})
	wantError(t, "Claim", p.Claim(addr("10.0.0.1"), owner("web")), nil)
	dry := p.Source().DryRun(allocator.AsUpstream)
	t.Run("1.6 1.9 pick, claim and release as API servers do", func(t *testing.T) {
		if got, err := dry.Pick(ctx, owner("db")); err != nil || got != addr("10.0.0.0") {
			t.Errorf("Pick = %s, %v, want the network address", got, err)
		}
		wantError(t, "claim of a taken one", dry.Claim(ctx, addr("10.0.0.1"), owner("db")), nil)
		wantError(t, "claim out of range", dry.Claim(ctx, addr("10.0.1.1"), owner("db")), allocator.ErrOutOfRange)
		wantError(t, "Release", dry.Release(ctx, addr("10.0.0.1"), owner("web")), nil)
		if !p.Has(addr("10.0.0.1")) {
			t.Error(".1 is free after a dry run")
		}
	})
}

func TestTruthfulDryRun(t *testing.T) {
	ctx := t.Context()
	p := newPool(t, "10.0.0.0/29", allocator.Options{})
	for _, a := range []string{"10.0.0.1", "10.0.0.2", "10.0.0.3"} {
		wantError(t, "Claim", p.Claim(addr(a), owner("web")), nil)
	}
	wantError(t, "Exclude", p.Exclude(addr("10.0.0.4")), nil)
	before := p.Stats()
	dry := p.Source().DryRun(allocator.Truthful)

	t.Run("4.6 #46 it says taken when it is", func(t *testing.T) {
		wantError(t, "taken", dry.Claim(ctx, addr("10.0.0.1"), owner("db")), allocator.ErrTaken)
		wantError(t, "excluded", dry.Claim(ctx, addr("10.0.0.4"), owner("db")), allocator.ErrReserved)
		wantError(t, "outside", dry.Claim(ctx, addr("10.0.0.9"), owner("db")), allocator.ErrOutOfRange)
		wantError(t, "free", dry.Claim(ctx, addr("10.0.0.5"), owner("db")), nil)
		wantError(t, "free once", dry.Claim(ctx, addr("10.0.0.5"), owner("db")), allocator.ErrTaken)
	})
	t.Run("4.6 #46 it picks what is free, and takes nothing", func(t *testing.T) {
		got, err := dry.Pick(ctx, owner("db"))
		if err != nil || got != addr("10.0.0.6") {
			t.Errorf("Pick = %s, %v, want the last free one, 10.0.0.6", got, err)
		}
		_, err = dry.Pick(ctx, owner("db"))
		wantError(t, "Pick when full", err, allocator.ErrFull)
		if s := p.Stats(); s != before {
			t.Errorf("stats of the pool %+v, want %+v", s, before)
		}
	})
	t.Run("4.6 releases", func(t *testing.T) {
		wantError(t, "not the owner", dry.Release(ctx, addr("10.0.0.1"), owner("db")), allocator.ErrNotOwner)
		wantError(t, "the owner", dry.Release(ctx, addr("10.0.0.1"), owner("web")), nil)
		wantError(t, "its own", dry.Release(ctx, addr("10.0.0.6"), owner("db")), nil)
		wantError(t, "outside", dry.Release(ctx, addr("10.0.9.9"), owner("db")), nil)
		if got, err := dry.Pick(ctx, owner("db")); err != nil || got != addr("10.0.0.6") {
			t.Errorf("Pick = %s, %v, want 10.0.0.6 again", got, err)
		}
	})
	t.Run("4.6 a new dry run knows nothing of this one", func(t *testing.T) {
		again := dry.DryRun(allocator.Truthful)
		wantError(t, "Claim", again.Claim(ctx, addr("10.0.0.5"), owner("db")), nil)
	})
}

func TestUpstreamDryRunOfPorts(t *testing.T) {
	type step struct {
		claim, pick uint16 // claim, or pick and expect this
		want        error
	}
	tests := []struct {
		name  string
		steps []step
	}{
		{"3.4 next, next", []step{{pick: 32769}, {pick: 32770}}},
		{"3.4 claim 30005, next", []step{{claim: 30005}, {pick: 30006}}},
		{"3.4 claim 99, out of range", []step{{claim: 99}}},
		{"3.4 claim a taken one", []step{{claim: 30080, want: allocator.ErrTaken}}},
		{"3.4 the same port twice", []step{{claim: 30005}, {claim: 30005, want: allocator.ErrTaken}}},
		{"3.4 next after the last port", []step{{claim: 65535}, {want: allocator.ErrFull}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPorts(t, "30000-32767", allocator.Options{})
			wantError(t, "Claim", p.Claim(30080, owner("web")), nil)
			dry := p.Source().DryRun(allocator.AsUpstream)
			for _, s := range tt.steps {
				if s.claim != 0 {
					wantError(t, "claim", dry.Claim(t.Context(), s.claim, owner("db")), s.want)
					continue
				}
				got, err := dry.Pick(t.Context(), owner("db"))
				wantError(t, "pick", err, s.want)
				if got != s.pick {
					t.Errorf("Pick = %d, want %d", got, s.pick)
				}
			}
			wantError(t, "Release", dry.Release(t.Context(), 30080, owner("web")), nil)
			if s := p.Stats(); s.Used != 1 {
				t.Errorf("%d ports in use, want still 1", s.Used)
			}
		})
	}
	t.Run("3.4 a truthful dry run refuses ports out of range", func(t *testing.T) {
		p := newPorts(t, "30000-30000", allocator.Options{})
		dry := p.Source().DryRun(allocator.Truthful)
		wantError(t, "Claim", dry.Claim(t.Context(), 99, owner("db")), allocator.ErrOutOfRange)
		if got, err := dry.Pick(t.Context(), owner("db")); err != nil || got != 30000 {
			t.Errorf("Pick = %d, %v, want 30000", got, err)
		}
		_, err := dry.Pick(t.Context(), owner("db"))
		wantError(t, "Pick", err, allocator.ErrFull)
	})
}
