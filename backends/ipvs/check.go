package ipvs

import (
	"context"
	"fmt"
)

// Check names virtual servers, elements of the table, addresses and the rules, if they differ from what the last Sync made. It reads all of these: nft runs once, and
// there is a request to IPVS for each virtual server. Of rules it compares the number in each chain; a full Sync replaces them. An address that an
// interface got after it was bound is named too: the next full Sync leaves it to the interface.
func (b *Backend) Check(ctx context.Context) (changed []string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.known {
		return nil, nil
	}
	if err := b.open(ctx); err != nil {
		return nil, fmt.Errorf("ipvs: check: %w", err)
	}
	b.dialect.mode = checking
	return b.engine.Check(ctx)
}
