package nftables

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A conforming backend shows its rules when a scenario fails, and its kernel fails as it is told to.
type conforming struct {
	*Backend
	faults *faults
}

func newConforming(t *testing.T) backends.Backend {
	t.Helper()
	b, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := &faults{tb: t, ports: make(map[plan.Key]error)}
	b.runner, b.kernel = faultyRunner{b.runner, f}, faultyKernel{b.kernel, f}
	return conforming{b, f}
}

func (conforming) Dump(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "nft", "list", "ruleset").CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}

// Sync remembers what the ports that the kernel refuses shall be.
func (c conforming) Sync(ctx context.Context, d *plan.Delta) error {
	c.faults.plan = d.New
	return c.Backend.Sync(ctx, d)
}

// Image returns what the tables mean, whatever their past.
func (c conforming) Image(context.Context) (string, error) {
	var out strings.Builder
	for name, text := range imageOf(c.faults.tb) {
		fmt.Fprintf(&out, "%s: %s\n", name, strings.ReplaceAll(text, "\n", " "))
	}
	return out.String(), nil
}

func (c conforming) FailPort(k plan.Key, err error) { c.faults.ports[k] = err }

func (c conforming) FailWrite(n int, err error) { c.faults.writes, c.faults.write = n, err }

func (c conforming) FailRead(err error) { c.faults.read = err }

// faults are what the kernel shall refuse.
type faults struct {
	tb     testing.TB
	plan   *plan.Plan
	ports  map[plan.Key]error
	writes int // until the one that fails
	write  error
	read   error
}

// commit makes a transaction, unless it shall fail.
func (f *faults) commit(data []byte, commit func() error) error {
	if f.writes--; f.writes == 0 && f.write != nil {
		return commitError{f.write} // nobody knows what came of it
	}
	for k, err := range f.ports {
		if err != nil && f.names(data, k) {
			return err
		}
	}
	return commit()
}

// names reports whether a transaction, in text or not, has an address that the port shall have.
func (f *faults) names(data []byte, k plan.Key) bool {
	port := f.plan.Port(k)
	if port == nil {
		return false
	}
	return slices.ContainsFunc(port.Frontends, func(fe plan.Frontend) bool {
		return bytes.Contains(data, []byte(fe.Addr.String()+" ")) || bytes.Contains(data, fe.Addr.AsSlice())
	})
}

// A faultyRunner fails transactions, of nft and those without it.
type faultyRunner struct {
	runner
	faults *faults
}

func (r faultyRunner) run(ctx context.Context, text []byte) error {
	return r.faults.commit(text, func() error { return r.runner.run(ctx, text) })
}

func (r faultyRunner) send(m *batch) error {
	return r.faults.commit(m.buf, func() error { return r.runner.(sender).send(m) })
}

// A faultyKernel fails to read tables.
type faultyKernel struct {
	kernel
	faults *faults
}

func (k faultyKernel) generation() (uint32, error) {
	if k.faults.read != nil {
		return 0, k.faults.read
	}
	return k.kernel.generation()
}

func (k faultyKernel) read(f *family, table string) (*contents, error) {
	if k.faults.read != nil {
		return nil, k.faults.read
	}
	return k.kernel.read(f, table)
}

func (k faultyKernel) elements(f *family, table string, b box) ([]element, error) {
	if k.faults.read != nil {
		return nil, k.faults.read
	}
	return k.kernel.elements(f, table, b)
}

func TestConformance(t *testing.T) {
	backendtest.Run(t, backendtest.Config{
		New:    newConforming,
		Limits: []backendtest.Limit{backendtest.NoLoopbackNodePorts, backendtest.HeldTogether},
	})
}
