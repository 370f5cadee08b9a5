package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/iptables"
	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/backends/nftables"
	"github.com/vipkit/vipkit/proxy/plan"
)

// The values of -backend.
const (
	backendNFTables = "nftables"
	backendIPTables = "iptables"
	backendIPVS     = "ipvs"
)

// newBackend makes the backend that the flags ask for. It touches nothing. What a backend can do
// besides is found by type assertion.
func newBackend(opts options, logger *slog.Logger) (backends.Backend, error) {
	switch opts.backend {
	case backendNFTables:
		return nftables.New(nftables.Options{Name: opts.table, Logger: logger})
	case backendIPTables:
		return iptables.New(iptables.Options{
			Name: strings.ToUpper(opts.table), Logger: logger,
			LocalhostNodePorts: true, // has an effect only if -nodeport-addresses names loopback addresses
		})
	case backendIPVS:
		return ipvs.New(ipvs.Options{Name: opts.table + "-ipvs", Logger: logger})
	default:
		return nil, fmt.Errorf("%q is none of %s, %s, %s", opts.backend, backendNFTables, backendIPTables, backendIPVS)
	}
}

// ready finds out whether the backend will work, and sets what it needs of the node.
func (a *agent) ready(ctx context.Context) error {
	if prober, ok := a.backend.(backends.Prober); ok {
		if err := prober.Probe(ctx); err != nil {
			return fmt.Errorf("probe %s: %w", a.opts.backend, err)
		}
	}
	preparer, ok := a.backend.(backends.Preparer)
	if !ok {
		return nil
	}
	changed, err := preparer.Prepare(ctx)
	for _, c := range changed {
		a.logger.Info("setting of the node changed", "setting", c)
	}
	return err
}

// warnings logs the backend's warnings after its first round. It is a consumer of the proxy, since no two
// methods of a backend may run at once.
type warnings struct {
	backend backends.Backend
	logger  *slog.Logger
	told    bool
}

// Sync needs nothing of a Delta but its plan.
func (w *warnings) Sync(ctx context.Context, d *plan.Delta) error {
	warner, ok := w.backend.(backends.Warner)
	if !ok || w.told {
		return nil
	}
	w.told = true
	for _, text := range warner.Warnings(ctx, d.New) {
		w.logger.Warn(text)
	}
	return nil
}
