//go:build !linux

package nftables

import "github.com/vipkit/vipkit/backends"

// netlinkKernel has no kernel to read.
type netlinkKernel struct{}

func unsupported() error {
	return &backends.UnsupportedError{Feature: "nftables", Minimum: "Linux 5.13"}
}

func (netlinkKernel) generation() (uint32, error)                      { return 0, unsupported() }
func (netlinkKernel) read(*family, string) (*contents, error)          { return nil, unsupported() }
func (netlinkKernel) elements(*family, string, box) ([]element, error) { return nil, unsupported() }

func (netlinkKernel) clients(*family, string, box) ([]client, error) { return nil, unsupported() }

func (netlinkKernel) element(*family, string, box, key) (element, bool, error) {
	return element{}, false, unsupported()
}

func (netlinkKernel) release() (string, error) { return "", unsupported() }

// A batch is never made without netlink.
type batch struct{}

func (*batch) element(verb, script, box, element) {}
