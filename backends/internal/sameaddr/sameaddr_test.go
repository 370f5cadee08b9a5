package sameaddr_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/internal/sameaddr"
)

func TestMasks(t *testing.T) {
	tests := []struct {
		family                corev1.IPFamily
		n                     int
		first, seventh, final string
	}{
		{corev1.IPv4Protocol, 32, "0.0.0.1", "0.0.0.64", "128.0.0.0"},
		{corev1.IPv6Protocol, 128, "::1", "::40", "8000::"},
	}
	for _, tt := range tests {
		masks := sameaddr.Masks(tt.family)
		seen := map[string]bool{}
		for _, m := range masks {
			seen[m.String()] = true
		}
		if len(masks) != tt.n || len(seen) != tt.n {
			t.Errorf("%s: %d masks, %d of them different, want %d", tt.family, len(masks), len(seen), tt.n)
			continue
		}
		if got := []string{masks[0].String(), masks[6].String(), masks[tt.n-1].String()}; got[0] != tt.first || got[1] != tt.seventh || got[2] != tt.final {
			t.Errorf("%s: masks are %v, want %s, %s and %s", tt.family, got, tt.first, tt.seventh, tt.final)
		}
	}
}

// What the rules do is tested with packets, by the conformance suite.
func TestNFT(t *testing.T) {
	rules := sameaddr.NFT(corev1.IPv6Protocol)
	want := []string{
		"ip6 saddr & ::1 == :: ip6 daddr & ::1 != :: return",
		"ip6 saddr & ::1 != :: ip6 daddr & ::1 == :: return",
	}
	if len(rules) != 256 || rules[0] != want[0] || rules[1] != want[1] {
		t.Errorf("%d rules that begin with\n%s\nwant 256 that begin with\n%s", len(rules), strings.Join(rules[:2], "\n"), strings.Join(want, "\n"))
	}
	if rules := sameaddr.NFT(corev1.IPv4Protocol); len(rules) != 64 || rules[0] != "ip saddr & 0.0.0.1 == 0.0.0.0 ip daddr & 0.0.0.1 != 0.0.0.0 return" {
		t.Errorf("%d rules that begin with %q, want 64", len(rules), rules[0])
	}
}
