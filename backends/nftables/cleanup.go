package nftables

import (
	"context"
	"errors"
	"fmt"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/proxy/plan"
)

// Cleanup deletes the tables of both families, whatever the options say about
// families, and forgets what they had. A table that does not exist is no error.
func (b *Backend) Cleanup(ctx context.Context) error {
	b.lap = lap{}
	b.base, b.tables, b.ports, b.suspects = nil, nil, make(map[plan.Key]*portState), nil
	b.last = backends.Stats{}
	var errs []error
	for _, f := range families() {
		errs = append(errs, b.deleteTable(ctx, f))
	}
	b.report(ctx, errors.Join(errs...))
	return errors.Join(errs...)
}

// deleteTable deletes one table; each family alone, as a kernel may lack one.
func (b *Backend) deleteTable(ctx context.Context, f *family) error {
	tx := &transaction{}
	script{tx: tx, f: f, table: b.opts.Name}.tableItself(remove)
	text, err := tx.bytes()
	if err == nil {
		_, _, err = b.execute(ctx, text)
	}
	if err != nil && !errors.Is(err, errNotFound) {
		return fmt.Errorf("nftables: clean up table %s %s: %w", f.nft, b.opts.Name, err)
	}
	if err == nil {
		b.last.Commits++
		b.last.Written++
	}
	return nil
}
