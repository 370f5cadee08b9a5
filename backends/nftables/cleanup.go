package nftables

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/proxy/plan"
)

// Cleanup deletes the tables of both families, whatever the options say about
// families, and forgets what they had. A table that does not exist is no error.
func (b *Backend) Cleanup(ctx context.Context) error {
	if b.runner == nil {
		r, err := b.open()
		if err != nil {
			return err
		}
		b.runner = r
	}
	b.base, b.tables, b.ports = nil, nil, make(map[plan.Key]*portState)
	b.last = Stats{}
	var errs []error
	for _, f := range families() {
		errs = append(errs, b.deleteTable(ctx, f))
	}
	b.report(ctx, errors.Join(errs...))
	return errors.Join(errs...)
}

// deleteTable deletes one table; each family alone, as a kernel may lack one.
func (b *Backend) deleteTable(ctx context.Context, f *family) error {
	tx := b.runner.NewTransaction()
	tx.Delete(&knftables.Table{Family: f.nft, Name: b.opts.Table})
	err := b.runner.Run(context.WithoutCancel(ctx), tx)
	if err != nil && !knftables.IsNotFound(err) {
		return fmt.Errorf("nftables: clean up table %s %s: %w", f.nft, b.opts.Table, err)
	}
	if err == nil {
		b.last.Transactions++
		b.last.Statements++
	}
	return nil
}

// tryFamily asks the kernel whether it takes the base chains of a family, and
// changes nothing.
func (b *Backend) tryFamily(ctx context.Context, f *family) error {
	tx := b.runner.NewTransaction()
	t := &knftables.Table{Family: f.nft, Name: b.opts.Table + "-try"}
	tx.Add(t)
	for _, c := range f.baseChains(&layout{mark: b.opts.MasqueradeMark}) {
		tx.Add(&knftables.Chain{
			Family: f.nft, Table: t.Name, Name: c.name, Type: &c.hook.kind, Hook: &c.hook.hook, Priority: &c.hook.priority,
		})
	}
	return b.runner.Check(ctx, tx)
}
