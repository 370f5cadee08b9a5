package allocator

import (
	"net/netip"
	"testing"
)

// TestSegmentsAgreeWithRanges asks ranges and segments about every address.
func TestSegmentsAgreeWithRanges(t *testing.T) {
	tests := []struct {
		name     string
		prefixes []string
		notReady string
	}{
		{"2.3 one", []string{"10.0.0.0/24"}, ""},
		{"2.3 a /25 in the static band of a wider one", []string{"10.0.0.0/22", "10.0.0.0/25"}, ""},
		{"2.3 apart, adjacent, nested, tiny", []string{"10.0.0.0/24", "10.0.1.0/24", "10.0.1.64/27", "10.0.3.0/31", "10.0.3.8/29"}, ""},
		{"2.2 a range that is not ready", []string{"10.0.0.0/22", "10.0.1.0/24"}, "10.0.0.0/22"},
		{"2.2 a range that is not ready inside of one that is", []string{"10.0.0.0/22", "10.0.1.0/24"}, "10.0.1.0/24"},
		{"2.3 the end of the address space", []string{"255.255.252.0/22", "255.255.255.0/24"}, ""},
		{"2.3 IPv6 with the last address", []string{"ffff:ffff:ffff:ffff:ffff:ffff:ffff:fc00/118", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ff00/120"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var ranges []coverage
			for _, text := range tt.prefixes {
				r, err := newPrefixRange(netip.MustParsePrefix(text))
				if err != nil {
					t.Fatal(err)
				}
				ranges = append(ranges, coverage{r, text != tt.notReady})
			}
			segments := newSegments(ranges)
			for i := 1; i < len(segments); i++ {
				if segments[i-1].last().Compare(segments[i].first) >= 0 {
					t.Errorf("segments %d and %d overlap", i-1, i)
				}
			}
			for _, r := range ranges {
				a := r.prefix.Addr()
				for ; a.IsValid() && r.prefix.Contains(a); a = a.Next() {
					want, covered := classify(ranges, a)
					s, n := find(segments, a)
					if (s != nil) != covered || s != nil && (s.class != want || s.at(n) != a) {
						t.Fatalf("%s is in segment %+v, want class %d, %v", a, s, want, covered)
					}
				}
			}
		})
	}
}
