package nftables

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/internal/process"
	"github.com/vipkit/vipkit/proxy/plan"
)

var _ backends.Backend = (*Backend)(nil)

// A Backend programs the nftables of the network namespace in which its methods are
// called. It is not safe for concurrent use.
type Backend struct {
	opts   Options
	runner runner
	kernel kernel

	unusable  error // why a family is left out, nil if none is
	noBatches error // why elements go through nft, nil if they do not have to

	tables []*table   // one for each family in use; nil before the first Sync
	layout *layout    // of base
	base   *plan.Plan // what the tables hold, nil if that is not known
	ports  map[plan.Key]*portState
	left   map[plan.Key]*program // what adoption found of ports that could not be written

	beyond   map[plan.Key]error // ports of the current Sync that are beyond a limit
	suspects map[plan.Key]bool  // ports that were refused alone and not written since
	last     backends.Stats

	// verified is the generation of nftables at which everything in the tables was found right, in one Check
	// or in several; read is the one at which they were read as a whole. Our own commits move both on.
	verified, read uint32
	lap            lap
	checked        int // how many elements one Check reads
}

// New returns a Backend. It reads and writes nothing; see [Backend.Probe].
func New(opts Options) (*Backend, error) {
	opts, err := opts.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Backend{
		opts: opts, runner: nftProgram{opts.NFT, opts.Timeout}, kernel: netlinkKernel{},
		ports: make(map[plan.Key]*portState), checked: checkedElements,
	}, nil
}

// LastStats returns what the last Sync or Cleanup did.
func (b *Backend) LastStats() backends.Stats { return b.last }

// Sync makes the tables equal d.New. Both families are written in one transaction, or, if there is much to
// add, in several of which each is complete for its Service ports.
//
// If d is not Full and d.Base is what the Backend committed last, Sync reads nothing and
// costs what the change costs. Otherwise it reads both tables once (about one second for
// 100,000 endpoints), unless the kernel says that nobody else has committed anything to nftables
// since they were read. It writes only differences; tables of another layout are
// replaced in the same transaction.
//
// A Service port that the kernel refuses is found by bisection and reported in a
// [plan.PartialError]; it stays as it was. If the reason is that somebody else changed the
// tables, the next Sync reads them. After any other error the tables are as they
// were, or as they should be, and the next Sync reads them.
func (b *Backend) Sync(ctx context.Context, d *plan.Delta) error {
	start := time.Now()
	b.last = backends.Stats{}
	err := b.sync(ctx, d)
	if err != nil && !isPartial(err) {
		b.base = nil
	}
	b.last.Duration = time.Since(start)
	b.report(ctx, err)
	return err
}

func isPartial(err error) bool {
	var partial *plan.PartialError
	return errors.As(err, &partial)
}

func (b *Backend) report(ctx context.Context, err error) {
	if b.opts.OnSync != nil {
		b.opts.OnSync(b.last)
	}
	if b.opts.Logger != nil {
		b.opts.Logger.LogAttrs(ctx, slog.LevelDebug, "nftables sync", slog.Any("", b.last), slog.Any("error", err))
	}
}

func (b *Backend) sync(ctx context.Context, d *plan.Delta) error {
	if err := b.start(ctx); err != nil {
		return err
	}
	b.beyond = nil
	items, err := b.items(d)
	if err != nil {
		return fmt.Errorf("nftables: sync: %w", err)
	}
	w := &writer{b: b, now: time.Now(), bad: make(map[plan.Key]error)}
	if b.noBatches == nil {
		w.direct, _ = b.runner.(sender)
	}
	if err := w.writeAll(ctx, items); err != nil {
		return err
	}
	b.base = d.New
	for _, t := range b.tables {
		if t.broken != nil {
			b.base = nil // read it again next time
		}
	}
	if b.last.Full && b.last.Written > 0 && contains(items, baseItem) {
		// Who was here before us may have written until just now, and a dump can miss elements
		// while the kernel makes room for many: the next full Sync reads once more.
		b.read, b.verified = 0, 0
	}
	b.noteLeft(items, w.bad)
	w.bury(ctx)
	if len(w.bad) > 0 && b.base != nil && !b.stillKnown(ctx, items, w.bad) {
		b.base = nil
	}
	maps.Copy(w.bad, b.beyond)
	b.last.Failed = len(w.bad)
	if len(w.bad) > 0 {
		return fmt.Errorf("nftables: sync: %w", &plan.PartialError{Ports: w.bad})
	}
	return nil
}

// items returns what has to change for d.
func (b *Backend) items(d *plan.Delta) ([]*item, error) {
	next := newLayout(b.opts, d.New)
	known := b.base != nil && b.layout.sameRules(next)
	b.layout = next
	switch {
	case known && !d.Full && d.Base == b.base:
		return b.changes(d), nil
	case known && b.untouched():
		return b.differences(d.New), nil
	default:
		b.last.Full = true
		return b.adopt(d.New)
	}
}

// untouched reports whether nobody else has committed anything to nftables since the tables were
// read: reading them again would tell nothing new.
func (b *Backend) untouched() bool {
	now, err := b.kernel.generation()
	return err == nil && now == b.read
}

// start opens nft and chooses the families.
func (b *Backend) start(ctx context.Context) error {
	if b.tables == nil {
		usable, err := b.usableFamilies(ctx)
		if err != nil {
			return err
		}
		for _, f := range usable {
			b.tables = append(b.tables, newTable(f))
		}
	}
	for _, t := range b.tables {
		t.broken = nil
	}
	return nil
}

// usableFamilies returns the families that the options name, or those in which the
// kernel has all that the rules need.
func (b *Backend) usableFamilies(ctx context.Context) ([]*family, error) {
	if b.opts.Families != nil {
		return b.wanted(), nil
	}
	var usable []*family
	var errs []error
	for _, f := range b.wanted() {
		if err := b.probeFeatures(ctx, f); process.Broke(err) {
			return nil, fmt.Errorf("nftables: start: %w", err) // which says nothing of the family
		} else if err != nil {
			errs = append(errs, err)
			continue
		}
		usable = append(usable, f)
	}
	if len(usable) == 0 {
		return nil, fmt.Errorf("nftables: start: %w", errors.Join(errs...))
	}
	b.unusable = errors.Join(errs...)
	return usable, nil
}

// wanted returns the families that the options name, both if they name none.
func (b *Backend) wanted() []*family {
	return slices.DeleteFunc(families(), func(f *family) bool {
		return b.opts.Families != nil && !slices.Contains(b.opts.Families, f.ip)
	})
}

// tableOf returns the table of a family, nil if the family is not in use.
func (b *Backend) tableOf(f corev1.IPFamily) *table {
	for _, t := range b.tables {
		if t.ip == f {
			return t
		}
	}
	return nil
}

// changes returns the items of a delta on top of what is remembered.
func (b *Backend) changes(d *plan.Delta) []*item {
	var items []*item
	if d.Config {
		items = b.bases(d.New)
	}
	for _, c := range d.Changes {
		if t := b.tableOf(c.Key.Family); t != nil {
			items = append(items, b.change(t, d.New, c))
		}
	}
	return items
}

// differences returns the items of a whole plan on top of what is remembered. A port that is
// in place costs one look.
func (b *Backend) differences(p *plan.Plan) []*item {
	items := b.bases(p)
	for port := range p.All() {
		s, t := b.ports[port.Key], b.tableOf(port.Family)
		if t != nil && (s == nil || s.port != port || b.left[port.Key] != nil) {
			items = append(items, b.change(t, p, plan.Change{Key: port.Key, After: port}))
		}
	}
	for _, k := range b.unwanted(p) {
		items = append(items, b.change(b.tableOf(k.Family), p, plan.Change{Key: k}))
	}
	return items
}

// unwanted returns the ports that are in place and not in p, sorted.
func (b *Backend) unwanted(p *plan.Plan) []plan.Key {
	gone := make(map[plan.Key]struct{})
	note := func(k plan.Key) {
		if p.Port(k) == nil {
			gone[k] = struct{}{}
		}
	}
	for k := range b.ports {
		note(k)
	}
	for k := range b.left {
		note(k)
	}
	return slices.SortedFunc(maps.Keys(gone), plan.Key.Compare)
}

// bases returns the items of what all Service ports stand on.
func (b *Backend) bases(p *plan.Plan) []*item {
	items := make([]*item, 0, len(b.tables))
	for _, t := range b.tables {
		i := &item{table: t, kind: baseItem, before: &program{elements: t.config}, after: t.base(b.layout, p)}
		i.config = i.after.elements
		i.trim()
		items = append(items, i)
	}
	return items
}

// change returns the item of a change that is part of p.
func (b *Backend) change(t *table, p *plan.Plan, c plan.Change) *item {
	comp := compiler{layout: b.layout, f: t.family}
	old := b.ports[c.Key]
	i := &item{table: t, key: c.Key, before: comp.compile(old)}
	if left := b.left[c.Key]; left != nil {
		found := *left
		i.before = &found
	}
	after := c.After
	if after != nil {
		after = b.feasible(after, old, p)
	}
	if after != nil {
		i.next = assignSlots(old, after)
	}
	i.after = comp.compile(i.next)
	i.trim()
	return i
}
