package nftables

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/vipkit/vipkit/proxy/service"
)

// guarded returns n Services with 20 source ranges each.
func guarded(n int) []app {
	var apps []app
	for i := range n {
		apps = append(apps, app{name: fmt.Sprint("guarded", i), vip: fmt.Sprintf("10.97.0.%d", i+1), eps: two, change: func(s *service.Service) {
			s.IPv4.LoadBalancerIPs = []netip.Addr{addr(fmt.Sprintf("203.0.113.%d", i+1))}
			for j := range 20 {
				s.IPv4.SourceRanges = append(s.IPv4.SourceRanges, prefix(fmt.Sprintf("198.18.%d.0/24", j)))
			}
		}})
	}
	return apps
}

func gone(apps ...app) []app {
	for i := range apps {
		apps[i].gone = true
	}
	return apps
}

func TestRangesRemoved(t *testing.T) {
	t.Run("fault F12 one commit removes the ranges of one Service", func(t *testing.T) {
		inNetNS(t)
		w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
		w.sync(b, with(guarded(10)...))
		c := counting(b)
		in := with(gone(guarded(7)...)...)
		s := w.sync(b, merged(in, with(app{name: "other", vip: "10.96.0.10", eps: two})))
		if s.Commits != 8 || s.Changes != 8 || c.runs > 1 {
			t.Errorf("stats %+v, %d runs of nft, want 8 transactions, of which at most one through nft", s, c.runs)
		}
		w.wantSettled(Options{})
		if changed, err := b.Check(t.Context()); len(changed) > 0 || err != nil {
			t.Errorf("Check = %q, %v", changed, err)
		}
	})
	t.Run("an address moves with its ranges in one commit", func(t *testing.T) {
		inNetNS(t)
		w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
		apps := guarded(4)
		w.sync(b, with(apps...))
		for i := range apps {
			apps[i].vip = fmt.Sprintf("10.97.0.%d", 4-i)
		}
		w.sync(b, with(apps...))
		w.wantSettled(Options{})
	})
	t.Run("fault F12 no set of which an element costs more to remove the more there are", func(t *testing.T) {
		t.Skip("second layout: source ranges are in a set of intervals with concatenations")
		for _, b := range boxes() {
			if b.interval && !b.mereRanges() {
				t.Errorf("%s has ranges and other fields", b.name)
			}
		}
	})
}
