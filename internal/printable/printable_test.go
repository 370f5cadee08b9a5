package printable_test

import (
	"testing"

	"github.com/vipkit/vipkit/internal/printable"
)

func TestText(t *testing.T) {
	tests := []struct{ name, in, want string }{
		{"nothing", "", ""},
		{"a name", `default/web:http "x" \`, `default/web:http "x" \`},
		{"letters of all kinds", "größe 大", "größe 大"},
		{"line ends", "a\nb\r\tc", `a\nb\r\tc`},
		{"a terminal's escape", "\x1b[31mred\x07\x7f", `\x1b[31mred\a\x7f`},
		{"C1 control", "\u009b31m", `\u009b31m`},
		{"direction of writing", "a\u202eb", `a\u202eb`},
		{"no UTF-8", "a\xffb", `a\xffb`},
		{"the replacement character itself", "\ufffd", "\ufffd"},
	}
	for _, tt := range tests {
		t.Run("fault F34 "+tt.name, func(t *testing.T) {
			if got := printable.Text(tt.in); got != tt.want {
				t.Errorf("Text(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}
