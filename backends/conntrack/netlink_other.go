//go:build !linux

package conntrack

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Netlink is the table of the kernel, which only Linux has: every error wraps
// [errors.ErrUnsupported].
type Netlink struct{}

var _ Table = Netlink{}

// Flows yields an error.
func (Netlink) Flows(context.Context, corev1.IPFamily) iter.Seq2[Flow, error] {
	return func(yield func(Flow, error) bool) { yield(Flow{}, unsupported()) }
}

// Delete returns an error.
func (Netlink) Delete(context.Context, []Flow) (int, error) { return 0, unsupported() }

func localAddrs(context.Context, corev1.IPFamily) ([]netip.Addr, error) { return nil, unsupported() }

func unsupported() error { return fmt.Errorf("connection tracking: %w", errors.ErrUnsupported) }
