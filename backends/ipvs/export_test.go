package ipvs

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends/ipvs/internal/seam"
	"github.com/vipkit/vipkit/proxy/plan"
)

// What the tests see of the package beside its API.
type (
	KernelMethods = kernel
	Links         = links
	Table         = table
)

const DefaultName = defaultName

func Behind(k *Kernel) KernelMethods { return behind(k) }

func KernelOf(k KernelMethods) *Kernel { return seam.New(k) }

func NewLinks() Links { return newLinks(defaultName) }

func Bound(l Links) (map[netip.Addr]netip.Addr, error) { return l.bound() }

func Unbind(l Links, a netip.Addr) error { return l.unbind(a) }

func OpenTable(ctx context.Context) (Table, error) { return openNFT(ctx, defaultName) }

func IsMap(box string) bool { return isMap(box) }

// NewOn returns a Backend on parts of a test.
func NewOn(opts Options, k KernelMethods, l Links, t Table) (*Backend, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	d := newDialect(opts, l)
	d.use(k)
	d.nft = t
	return newBackend(d), nil
}

// Compile returns why a port cannot be compiled, nil if it can.
func (b *Backend) Compile(p *plan.Plan, port *plan.Port) error {
	_, err := b.dialect.Compile(p, port, nil)
	return err
}

// MemoryLinks remember what the kernel would.
type MemoryLinks struct {
	Ours map[netip.Addr]netip.Addr
	Rest []netip.Addr
	Fail func(op string) error // may be nil
}

func (m *MemoryLinks) failed(op string) error {
	if m.Fail == nil {
		return nil
	}
	return m.Fail(op)
}

func (m *MemoryLinks) bound() (map[netip.Addr]netip.Addr, error) {
	return maps.Clone(m.Ours), m.failed("bound")
}

func (m *MemoryLinks) others() ([]netip.Addr, error) {
	return slices.Clone(m.Rest), m.failed("others")
}

func (m *MemoryLinks) bind(a, src netip.Addr) error {
	if err := m.failed("bind"); err != nil {
		return err
	}
	if m.Ours == nil {
		m.Ours = make(map[netip.Addr]netip.Addr)
	}
	m.Ours[a] = src
	return nil
}

func (m *MemoryLinks) unbind(a netip.Addr) error {
	if err := m.failed("unbind"); err != nil {
		return err
	}
	delete(m.Ours, a)
	return nil
}

func (*MemoryLinks) removeOld() error { return nil }

// A FakeTable is a table in memory.
type FakeTable struct {
	*knftables.Fake
	Fail func(op string) error // may be nil
}

func NewFakeTable() *FakeTable {
	return &FakeTable{Fake: knftables.NewFake(knftables.InetFamily, defaultName)}
}

func (f *FakeTable) Run(ctx context.Context, tx *knftables.Transaction) error {
	if f.Fail != nil {
		if err := f.Fail("run"); err != nil {
			return err
		}
	}
	return f.Fake.Run(ctx, tx)
}

func (f *FakeTable) read(context.Context) (contents, error) {
	if f.Fail != nil {
		if err := f.Fail("read"); err != nil {
			return contents{}, err
		}
	}
	f.RLock()
	defer f.RUnlock()
	if f.Table == nil {
		return contents{}, nil
	}
	out := contents{chains: make(map[string]int)}
	for name, c := range f.Table.Chains {
		out.chains[name] = len(c.Rules)
	}
	add := func(name string, list []*knftables.Element) {
		for _, e := range list {
			out.elements = append(out.elements, element{cell{name, strings.Join(e.Key, " . ")}, strings.Join(e.Value, " . ")})
		}
	}
	for name, s := range f.Table.Sets {
		add(name, s.Elements)
	}
	for name, m := range f.Table.Maps {
		add(name, m.Elements)
	}
	return out, nil
}

// WatchedLinks are links that say what is bound.
type WatchedLinks struct {
	Links
	OnBind func(a netip.Addr)
}

func (w WatchedLinks) bind(a, src netip.Addr) error {
	w.OnBind(a)
	return w.Links.bind(a, src)
}
