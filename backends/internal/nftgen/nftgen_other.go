//go:build !linux

package nftgen

import (
	"errors"
	"fmt"
)

// Read returns an error that wraps [errors.ErrUnsupported].
func Read() (uint32, error) {
	return 0, fmt.Errorf("read generation of nftables: %w", errors.ErrUnsupported)
}
