package nftables

import "testing"

func TestProbeHere(t *testing.T) {
	inNetNS(t)
	b := newBackend(t, Options{})
	if err := b.Probe(t.Context()); err != nil {
		t.Error(err)
	}
	t.Log(b.Warnings(t.Context(), nil))
	if out := nft(t, "list", "ruleset"); out != "" {
		t.Errorf("Probe left rules behind:\n%s", out)
	}
}

func TestCheckNotices(t *testing.T) {
	inNetNS(t)
	change := func(args ...string) func(*testing.T) {
		return func(t *testing.T) { t.Helper(); nft(t, args...) }
	}
	tests := []struct {
		name string
		do   func(*testing.T)
		want bool
	}{
		{"nothing", func(*testing.T) {}, true},
		{"#64 somebody else's table", change("add table ip other"), true},
		{"#65 all flushed", change("flush ruleset"), false},
		{"#65 one family flushed", change("delete table ip6 vipkit"), false},
		{"#65 base chain emptied", change("flush chain ip vipkit nat-prerouting"), false},
		{"#65 rule added", change("insert rule ip vipkit services drop"), false},
		{"#65 frontend removed", change("delete element ip vipkit service-ips { 10.96.0.10 . tcp . 80 }"), false},
		{"#65 endpoint removed", change("delete element ip vipkit endpoints-tcp { 10.96.0.10 . 80 . 1 }"), false},
		{"#65 range removed", change("delete element ip vipkit allowed-sources { 203.0.113.4 . tcp . 80 . 10.0.0.0/8 }"), false},
		{"#65 pod range removed", change("delete element ip vipkit pod-cidrs { 10.180.0.0/24 }"), false},
		{"#65 hairpin removed", change("flush chain ip vipkit hairpin"), false},
	}
	w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
	w.sync(b, with(everything()...))
	for _, tt := range tests {
		tt.do(t)
		if changed, err := b.Check(t.Context()); (len(changed) == 0) != tt.want || err != nil {
			t.Errorf("%s: Check = %q, %v, want nothing: %v", tt.name, changed, err, tt.want)
		}
		w.restart(b)
		if changed, err := b.Check(t.Context()); len(changed) > 0 || err != nil {
			t.Errorf("%s: after repair Check = %q, %v", tt.name, changed, err)
		}
		w.wantSettled(Options{})
	}
}
