package ext_test

import (
	"math"
	"testing"

	"github.com/vipkit/vipkit/internal/ext"
)

func TestEqual(t *testing.T) {
	type nested struct{ v any }
	tests := []struct {
		name          string
		a, b          any
		equal, usable bool // usable is said of a
	}{
		{"nil", nil, nil, true, true},
		{"nil and a value", nil, 1, false, true},
		{"values", "x", "x", true, true},
		{"other types", 1, int64(1), false, true},
		{"a list", []int{1}, []int{1}, false, false},
		{"a list inside", nested{[]int{1}}, nested{[]int{1}}, false, false},
		{"a list inside one", nested{1}, nested{[]int{1}}, false, true},
		{"not a number", math.NaN(), math.NaN(), false, false},
	}
	for _, tt := range tests {
		t.Run("fault F31 "+tt.name, func(t *testing.T) {
			if got := ext.Equal(tt.a, tt.b); got != tt.equal {
				t.Errorf("Equal = %v, want %v", got, tt.equal)
			}
			if got := ext.Usable(tt.a); got != tt.usable {
				t.Errorf("Usable = %v, want %v", got, tt.usable)
			}
		})
	}
}
