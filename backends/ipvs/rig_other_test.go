//go:build !linux

package ipvs_test

import (
	"errors"
	"testing"

	"github.com/vipkit/vipkit/backends/ipvs"
)

func kernelRig(t *testing.T) *rig {
	t.Helper()
	_, err := ipvs.Open()
	require(t, err)
	return nil
}

func TestOpen(t *testing.T) {
	if _, err := ipvs.Open(); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("Open() = %v, want an error that is ErrUnsupported", err)
	}
}
