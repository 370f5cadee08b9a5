package ipvs

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends/engine"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A FaultyBackend has something between it and the kernel that fails as it is told to: a backendtest.Faulter.
type FaultyBackend struct {
	backend *Backend
	ports   map[plan.Key]error

	refused map[id]refused // by what is new in a Sync
	write   int            // which of the coming writes fails
	failure error
	unread  error
}

type refused struct {
	value value
	err   error
}

// NewFaulty is New with faults.
func NewFaulty(opts Options) (*FaultyBackend, error) {
	b, err := New(opts)
	if err != nil {
		return nil, err
	}
	f := &FaultyBackend{backend: b, ports: make(map[plan.Key]error)}
	b.dialect.links = faultyLinks{b.dialect.links, f}
	b.engine = engine.New(faultyDialect{b.dialect, f}, engine.Options{Name: "ipvs"})
	return f, nil
}

// FailPort is part of backendtest.Faulter.
func (f *FaultyBackend) FailPort(k plan.Key, err error) { f.ports[k] = err }

// FailWrite is part of backendtest.Faulter. A write is a transaction of nftables, a bound address, or a virtual server.
func (f *FaultyBackend) FailWrite(n int, err error) { f.write, f.failure = n, err }

// FailRead is part of backendtest.Faulter.
func (f *FaultyBackend) FailRead(err error) { f.unread = err }

// Sync finds out what is new of the ports that fail.
func (f *FaultyBackend) Sync(ctx context.Context, delta *plan.Delta) error {
	if err := f.open(ctx); err != nil {
		return err
	}
	f.refused = make(map[id]refused)
	for k, err := range f.ports {
		port := delta.New.Port(k)
		if err == nil || port == nil {
			continue
		}
		objects, compiled := f.backend.dialect.Compile(delta.New, port, nil)
		if compiled != nil {
			return compiled
		}
		for _, o := range objects {
			if o.ID.kind == kindServer {
				f.refused[o.ID] = refused{o.Value, err}
			}
		}
	}
	return f.backend.Sync(ctx, delta)
}

// open puts the faults in front of the kernel and the table.
func (f *FaultyBackend) open(ctx context.Context) error {
	if err := f.backend.open(ctx); err != nil {
		return err
	}
	d := f.backend.dialect
	if _, done := d.kernel.(faultyKernel); !done {
		d.use(faultyKernel{d.kernel, f})
	}
	if _, done := d.nft.(faultyTable); !done {
		d.nft = faultyTable{d.nft, f}
	}
	return nil
}

// The other methods of a Backend that the suite knows.

func (f *FaultyBackend) Cleanup(ctx context.Context) error { return f.backend.Cleanup(ctx) }

func (f *FaultyBackend) Check(ctx context.Context) ([]string, error) {
	return f.backend.Check(ctx)
}

func (f *FaultyBackend) Prepare(ctx context.Context) ([]string, error) {
	return f.backend.Prepare(ctx)
}
func (f *FaultyBackend) Close() error { return f.backend.Close() }

// Image is part of backendtest.Imager: what Check compares.
func (f *FaultyBackend) Image(ctx context.Context) (string, error) {
	if err := f.open(ctx); err != nil {
		return "", err
	}
	d := f.backend.dialect
	d.mode = checking
	list, err := d.List(ctx)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for at, v := range list {
		var server strings.Builder
		if v.server != nil {
			v.server.dump(&server)
		}
		fmt.Fprintf(&out, "%s: %v %q %v %v %v\n", at, v.elements, server.String(), v.routed, v.source, v.chains)
	}
	return out.String(), nil
}

func (f *FaultyBackend) writes() error {
	if f.write--; f.write == 0 && f.failure != nil {
		return fmt.Errorf("write: %w", f.failure)
	}
	return nil
}

// A faultyDialect refuses halfway what is new of some ports.
type faultyDialect struct {
	*dialect
	faults *FaultyBackend
}

func (d faultyDialect) Write(ctx context.Context, edits []edit) error {
	i := slices.IndexFunc(edits, func(e edit) bool {
		r, ok := d.faults.refused[e.ID]
		return ok && e.New != nil && d.Equal(*e.New, r.value)
	})
	if i < 0 {
		return d.dialect.Write(ctx, edits)
	}
	if err := d.dialect.Write(ctx, edits[:i]); err != nil {
		return err
	}
	return fmt.Errorf("%w, %w: %w", engine.ErrRefused, engine.ErrHalfway, d.faults.refused[edits[i].ID].err)
}

type faultyKernel struct {
	kernel
	faults *FaultyBackend
}

func (k faultyKernel) Servers() ([]VirtualServer, error) {
	if k.faults.unread != nil {
		return nil, k.faults.unread
	}
	return k.kernel.Servers()
}

func (k faultyKernel) AddServer(v VirtualServer) error {
	if err := k.faults.writes(); err != nil {
		return err
	}
	return k.kernel.AddServer(v)
}

func (k faultyKernel) AddReal(key ServerKey, r RealServer) error {
	if err := k.faults.writes(); err != nil {
		return err
	}
	return k.kernel.AddReal(key, r)
}

func (k faultyKernel) DeleteServer(key ServerKey) error {
	if err := k.faults.writes(); err != nil {
		return err
	}
	return k.kernel.DeleteServer(key)
}

type faultyTable struct {
	table
	faults *FaultyBackend
}

func (t faultyTable) Run(ctx context.Context, tx *knftables.Transaction) error {
	if err := t.faults.writes(); err != nil {
		return err
	}
	return t.table.Run(ctx, tx)
}

func (t faultyTable) read(ctx context.Context) (contents, error) {
	if t.faults.unread != nil {
		return contents{}, t.faults.unread
	}
	return t.table.read(ctx)
}

type faultyLinks struct {
	links
	faults *FaultyBackend
}

func (l faultyLinks) bind(a, src netip.Addr) error {
	if err := l.faults.writes(); err != nil {
		return err
	}
	return l.links.bind(a, src)
}

func (l faultyLinks) unbind(a netip.Addr) error {
	if err := l.faults.writes(); err != nil {
		return err
	}
	return l.links.unbind(a)
}
