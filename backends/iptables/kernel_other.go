//go:build !linux

package iptables

import "github.com/vipkit/vipkit/backends"

func (procKernel) generation() (uint32, error) {
	return 0, &backends.UnsupportedError{Feature: "iptables", Minimum: "Linux"}
}
