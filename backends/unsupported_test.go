package backends_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/vipkit/vipkit/backends"
)

func TestUnsupportedError(t *testing.T) {
	tests := []struct {
		name string
		err  backends.UnsupportedError
		want string
	}{
		{"feature only", backends.UnsupportedError{Feature: "IPVS"}, "IPVS is missing"},
		{"with minimum", backends.UnsupportedError{Feature: "nftables", Minimum: "Linux 5.13"}, "nftables is missing (needs Linux 5.13)"},
		{
			"with cause",
			backends.UnsupportedError{Feature: "the nft program", Minimum: "nft 1.0.1", Err: os.ErrNotExist},
			"the nft program is missing (needs nft 1.0.1): file does not exist",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.err.Error(); got != tt.want {
				t.Errorf("Error() = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestUnsupportedErrorIs(t *testing.T) {
	err := fmt.Errorf("nftables: probe: %w", errors.Join(
		&backends.UnsupportedError{Feature: "nftables", Minimum: "Linux 5.13"},
		&backends.UnsupportedError{Feature: "the nft program", Err: os.ErrNotExist},
	))
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Error("errors.Is(err, errors.ErrUnsupported) = false")
	}
	if !errors.Is(err, os.ErrNotExist) {
		t.Error("the cause is lost")
	}
	if errors.Is(&backends.UnsupportedError{Feature: "IPVS"}, os.ErrNotExist) {
		t.Error("errors.Is(err, os.ErrNotExist) = true without that cause")
	}
	var u *backends.UnsupportedError
	if !errors.As(err, &u) || u.Feature != "nftables" {
		t.Errorf("errors.As gave %+v, want the first one", u)
	}
}

func ExampleUnsupportedError() {
	err := fmt.Errorf("mybackend: probe: %w", &backends.UnsupportedError{Feature: "nftables", Minimum: "Linux 5.13"})
	fmt.Println(err)
	fmt.Println(errors.Is(err, errors.ErrUnsupported))
	// Output:
	// mybackend: probe: nftables is missing (needs Linux 5.13)
	// true
}
