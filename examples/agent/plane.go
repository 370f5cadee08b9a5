package main

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/iptables"
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
}

// errNotBuilt is returned for a backend that this program does not have.
var errNotBuilt = errors.New("this backend is not built in")

func checkBackend(kind string) error {
	switch kind {
	case backendNFTables, backendIPTables:
		return nil
	case backendIPVS:
		return fmt.Errorf("%s: %w", kind, errNotBuilt)
	default:
		return fmt.Errorf("%q is none of %s, %s, %s", kind, backendNFTables, backendIPTables, backendIPVS)
	}
}

// newPlane makes the backend that the flags ask for. It touches nothing.
func newPlane(opts options, logger *slog.Logger) (plane, error) {
	if opts.backend == backendIPTables {
		return newIPTables(opts, logger)
	}
	return newNFTables(opts, logger)
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
