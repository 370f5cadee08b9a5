package nftables

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func families6() []corev1.IPFamily { return []corev1.IPFamily{corev1.IPv6Protocol} }

func TestOptions(t *testing.T) {
	bad := []struct {
		opts Options
		want string
	}{
		{Options{Name: "a b"}, "Name"},
		{Options{Name: "9a"}, "Name"},
		{Options{Name: strings.Repeat("a", 65)}, "Name"},
		{Options{Name: "a;flush ruleset"}, "Name"},
		{Options{MasqueradeMark: 3}, "MasqueradeMark"},
		{Options{AffinityClients: -1}, "AffinityClients"},
		{Options{Families: []corev1.IPFamily{}}, "Families"},
		{Options{Families: []corev1.IPFamily{"IPv5"}}, "Families"},
	}
	for _, tt := range bad {
		if _, err := New(tt.opts); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("New(%+v) = %v, want an error about %s", tt.opts, err, tt.want)
		}
	}
	b := newBackend(t, Options{})
	if o := b.opts; o.Name != "vipkit" || o.MasqueradeMark != 0x4000 || o.AffinityClients != 65536 || o.NFT != "nft" {
		t.Errorf("defaults are %+v", o)
	}
}

func TestMasqueradeMark(t *testing.T) {
	t.Run("K22 exactly one bit", func(t *testing.T) {
		for bit := range 32 {
			if _, err := New(Options{MasqueradeMark: 1 << bit}); err != nil {
				t.Errorf("bit %d: %v", bit, err)
			}
		}
		for _, mark := range []uint32{3, 0xffffffff} {
			if _, err := New(Options{MasqueradeMark: mark}); err == nil {
				t.Errorf("mark %#x was taken", mark)
			}
		}
	})
}
