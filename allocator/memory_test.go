package allocator_test

import (
	"testing"

	"github.com/vipkit/vipkit/allocator"
)

// TestMemory bounds what pools take, at the sizes that the documentation names.
// Heap of a test binary is noisy, so the bounds are well above what is measured
// and well below what any other representation would take.
func TestMemory(t *testing.T) {
	tests := []struct {
		name, cidr string
		used       int
		atMost     float64
	}{
		{"6.2 a /12 takes at most 160 KiB at any fill level", "10.0.0.0/12", 50_000, 160 << 10},
		{"6.2 a /64 takes at most 200 bytes for an address", "fd00::/64", 50_000, 200 * 50_000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, bytes := heapOf(func() *allocator.Pool {
				p := newPool(t, tt.cidr, allocator.Options{})
				for range tt.used {
					if _, err := p.Pick(allocator.Owner{}); err != nil {
						t.Fatal(err)
					}
				}
				return p
			})
			if bytes > tt.atMost {
				t.Errorf("%s takes %.0f bytes, want at most %.0f", p.Range(), bytes, tt.atMost)
			}
		})
	}
}
