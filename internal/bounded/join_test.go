package bounded_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/vipkit/vipkit/internal/bounded"
)

func TestJoin(t *testing.T) {
	many := make([]error, 1000)
	for i := range many {
		many[i] = fmt.Errorf("port %d", i)
	}
	many[999] = fmt.Errorf("port 999: %w", io.EOF)
	tests := []struct {
		name string
		errs []error
		want string
	}{
		{"none", nil, "<nil>"},
		{"nil only", []error{nil, nil}, "<nil>"},
		{"one", []error{nil, io.EOF}, "EOF"},
		{"five", many[:5], "port 0\nport 1\nport 2\nport 3\nport 4"},
		{"fault F13 a thousand", many, "port 0\nport 1\nport 2\nport 3\nport 4\nand 995 more"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := fmt.Sprint(bounded.Join(tt.errs...)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	t.Run("all are found", func(t *testing.T) {
		if !errors.Is(bounded.Join(many...), io.EOF) {
			t.Error("the last error is not found")
		}
	})
}
