//go:build !linux

package ipvs_test

import (
	"testing"

	"github.com/vipkit/vipkit/backends/ipvs"
)

func newKernelWorld(t *testing.T) *world {
	t.Helper()
	newKernelParts(t)
	return nil
}

func newKernelParts(t testing.TB) (ipvs.KernelMethods, ipvs.Links, ipvs.Table) {
	t.Helper()
	t.Skip("no Linux")
	return nil, nil, nil
}
