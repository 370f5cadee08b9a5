package ipvs

import (
	"context"
	"time"

	"sigs.k8s.io/knftables"
)

// nftTimeout is how long one run of nft may take: it reads and writes whole tables here.
const nftTimeout = time.Minute

// A timed ends each run of nft after nftTimeout. Knftables runs the program itself, so that unlike those that
// other backends run, children that hold its output open can hold up the caller.
type timed struct{ knftables.Interface }

func (t timed) Run(ctx context.Context, tx *knftables.Transaction) error {
	ctx, cancel := context.WithTimeout(ctx, nftTimeout)
	defer cancel()
	return t.Interface.Run(ctx, tx)
}

func (t timed) List(ctx context.Context, kind string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, nftTimeout)
	defer cancel()
	return t.Interface.List(ctx, kind)
}

func (t timed) ListElements(ctx context.Context, kind, name string) ([]*knftables.Element, error) {
	ctx, cancel := context.WithTimeout(ctx, nftTimeout)
	defer cancel()
	return t.Interface.ListElements(ctx, kind, name)
}
