//go:build !linux

package netlab

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func unsupported() error { return fmt.Errorf("netlab: %w: needs Linux", errors.ErrUnsupported) }

// A Lab is a network of namespaces.
type Lab struct{}

// New returns an error that wraps [errors.ErrUnsupported].
func New(Options) (*Lab, error) { return nil, unsupported() }

// Namespace returns nil.
func (l *Lab) Namespace(string) *Namespace { return nil }

// Owner returns "".
func (l *Lab) Owner(netip.Addr) string { return "" }

// Interface returns "".
func (l *Lab) Interface(string) string { return "" }

// Close does nothing.
func (l *Lab) Close() error { return nil }

// Serve returns an error that wraps [errors.ErrUnsupported].
func (l *Lab) Serve(netip.AddrPort, corev1.Protocol) error { return unsupported() }

// Probe returns an error that wraps [errors.ErrUnsupported].
func (l *Lab) Probe(Probe) (Result, error) { return Result{}, unsupported() }

// Open returns an error that wraps [errors.ErrUnsupported].
func (l *Lab) Open(Probe) (*Conn, Result, error) { return nil, Result{}, unsupported() }

// Flood returns a function that returns an error that wraps [errors.ErrUnsupported].
func (l *Lab) Flood(Probe, int) (stop func() (map[Outcome]int, error)) {
	return func() (map[Outcome]int, error) { return nil, unsupported() }
}

// A Namespace is a network namespace that only this program knows.
type Namespace struct{}

// NewNamespace returns an error that wraps [errors.ErrUnsupported].
func NewNamespace() (*Namespace, error) { return nil, unsupported() }

// Do returns an error that wraps [errors.ErrUnsupported].
func (n *Namespace) Do(func() error) error { return unsupported() }

// File returns nil.
func (n *Namespace) File() *os.File { return nil }

// Close does nothing.
func (n *Namespace) Close() error { return nil }

// A Conn is an open connection to a server of a [Lab].
type Conn struct{}

// Ping returns an error that wraps [errors.ErrUnsupported].
func (c *Conn) Ping(time.Duration) error { return unsupported() }

// Answer returns nothing.
func (c *Conn) Answer() Answer { return Answer{} }

// Close does nothing.
func (c *Conn) Close() error { return nil }

// HasProtocol returns an error that wraps [errors.ErrUnsupported].
func HasProtocol(corev1.Protocol) error { return unsupported() }

// Main runs the tests.
func Main(tests interface{ Run() int }) { os.Exit(tests.Run()) }
