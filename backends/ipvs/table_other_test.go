//go:build !linux

package ipvs

import (
	"testing"

	"sigs.k8s.io/knftables"
)

func newKernelWorld(t *testing.T) *world {
	t.Helper()
	newKernelParts(t)
	return nil
}

func newKernelParts(t testing.TB) (Kernel, links, knftables.Interface) {
	t.Helper()
	t.Skip("no Linux")
	return nil, nil, nil
}
