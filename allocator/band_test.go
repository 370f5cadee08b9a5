package allocator

import "testing"

func TestBandOffsetLeavesSomethingToPickFrom(t *testing.T) {
	tests := []struct {
		name               string
		size, usable, want uint64
	}{
		{"1.2 a /28 has no bands", 16, 14, 0},
		{"1.2 17 addresses of which 15 are usable", 17, 15, 0},
		{"1.2 the smallest banded range /27", 32, 30, 16},
		{"1.2 IPv4 from /1 on has no bands", 0, 1<<31 - 2, 0},
		{"1.2 at most 256", 1 << 63, 1<<63 - 1, 256},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := addressOffset(tt.size, tt.usable); got != tt.want {
				t.Errorf("addressOffset(%d, %d) = %d, want %d", tt.size, tt.usable, got, tt.want)
			}
		})
	}
}
