package ipvs

import (
	"fmt"

	"github.com/vipkit/vipkit/backends"
)

func errNoIPVS(cause error) error {
	return fmt.Errorf("ipvs: open: %w", &backends.UnsupportedError{Feature: "IPVS (kernel module ip_vs)", Err: cause})
}

func errNoScheduler(name string) error {
	return &backends.UnsupportedError{Feature: fmt.Sprintf("the IPVS scheduler %q (kernel module ip_vs_%s)", name, name)}
}
