package nftables

import (
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
)

// TestTampered changes Services after somebody else changed the tables and before any Check.
// What the first Sync cannot write, the next one must: it may not fail for ever.
func TestTampered(t *testing.T) {
	tests := []struct {
		name string
		do   []string
		in   plan.Input
	}{
		{"#65 all flushed", []string{"flush ruleset"}, with(app{name: "plain", vip: "10.96.0.10 fd00:96::10", eps: "10.180.1.1:8080"})},
		{"#65 one family flushed", []string{"delete table ip6 vipkit"}, with(app{name: "plain", vip: "10.96.0.10 fd00:96::10", eps: two})},
		{"#65 an element is gone", []string{"delete element ip vipkit endpoints-tcp { 10.96.0.10 . 80 . 1 }"}, with(app{name: "plain", gone: true})},
		{"#65 another value in its place", []string{
			"add chain ip vipkit other", "add element ip vipkit service-ips { 10.96.0.20 . tcp . 80 : goto other }",
		}, with(app{name: "new", vip: "10.96.0.20", eps: two})},
		{"#65 a map is gone", []string{"flush chain ip vipkit cluster-ip", "delete set ip vipkit cluster-ips"}, with(app{name: "new", vip: "10.96.0.20", eps: "10.180.0.5:8080@n1"})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inNetNS(t) // a subtest is a goroutine of its own, and so another thread
			w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
			w.sync(b, with(everything()...))
			for _, s := range tt.do {
				nft(t, s)
			}
			if err := w.try(b, tt.in); err == nil {
				t.Error("Sync did not notice")
			}
			w.sync(b, plan.Input{})
			w.wantSettled(Options{})
		})
	}
}
