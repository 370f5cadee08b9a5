package main

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

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

// A plane is a data plane with what backends tell in ways of their own.
type plane struct {
	backends.Backend
	name string

	// statements is how many statements the last Sync committed.
	statements func() int

	// warnings says what on the node may surprise the user of a plan.
	warnings func(*plan.Plan) []string

	// sweep finishes what has to wait for open connections; nil if nothing does. It returns how
	// much is left.
	sweep func(context.Context) (left int, err error)
}

func checkBackend(kind string) error {
	switch kind {
	case backendNFTables, backendIPTables, backendIPVS:
		return nil
	default:
		return fmt.Errorf("%q is none of %s, %s, %s", kind, backendNFTables, backendIPTables, backendIPVS)
	}
}

// newPlane makes the backend that the flags ask for. It touches nothing.
func newPlane(opts options, logger *slog.Logger) (plane, error) {
	switch opts.backend {
	case backendIPTables:
		return newIPTables(opts, logger)
	case backendIPVS:
		return newIPVS(opts, logger)
	default:
		return newNFTables(opts, logger)
	}
}

func newNFTables(opts options, logger *slog.Logger) (plane, error) {
	b, err := nftables.New(nftables.Options{Table: opts.table, Logger: logger})
	if err != nil {
		return plane{}, err
	}
	return plane{
		Backend:    b,
		name:       opts.backend,
		statements: func() int { return b.LastStats().Statements },
		warnings:   b.Warnings,
	}, nil
}

func newIPTables(opts options, logger *slog.Logger) (plane, error) {
	b, err := iptables.New(iptables.Options{
		Prefix: strings.ToUpper(opts.table),
		// Has an effect only if -nodeport-addresses names loopback addresses.
		LocalhostNodePorts: true,
		Logger:             logger,
	})
	if err != nil {
		return plane{}, err
	}
	return plane{
		Backend:    b,
		name:       opts.backend,
		statements: func() int { return b.LastStats().Statements },
		warnings:   func(*plan.Plan) []string { return nil },
	}, nil
}

// A prepared IPVS has had its switches of the kernel set before anything is written.
type preparedIPVS struct {
	*ipvs.Backend
	logger *slog.Logger
}

func newIPVS(opts options, logger *slog.Logger) (plane, error) {
	b, err := ipvs.New(ipvs.Options{Name: opts.table + "-ipvs", Logger: logger})
	if err != nil {
		return plane{}, err
	}
	return plane{
		Backend: preparedIPVS{b, logger},
		name:    opts.backend,
		statements: func() int {
			s := b.LastStats()
			return s.Written + s.Statements + s.Addresses
		},
		warnings: b.Warnings,
		sweep:    b.Sweep,
	}, nil
}

// Probe also sets the switches.
func (p preparedIPVS) Probe(ctx context.Context) error {
	if err := p.Backend.Probe(ctx); err != nil {
		return err
	}
	changed, err := p.Prepare()
	for _, s := range changed {
		p.logger.Info("switch of the kernel set", "name", s.Name, "value", s.Want, "before", s.Have, "why", s.Why)
	}
	return err
}

// sweepInterval is how often to look whether connections to endpoints that are gone have ended.
const sweepInterval = time.Minute

// sweep calls the plane's sweep from time to time until ctx is done.
func (a *agent) sweep(ctx context.Context) error {
	tick := time.NewTicker(sweepInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if _, err := a.plane.sweep(ctx); err != nil && ctx.Err() == nil {
			a.logger.Warn("endpoints that are gone could not be removed", "error", err)
			a.proxy.Trigger()
		}
	}
}
