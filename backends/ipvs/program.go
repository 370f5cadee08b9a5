package ipvs

import (
	"context"
	"errors"
	"strings"
	"time"

	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/internal/process"
)

// nftTimeout is how long one run of nft may take: it reads and writes whole tables here.
const nftTimeout = time.Minute

// An nftTable is the table of nftables, written by the program. What is written is run by package process: a run that
// does not end is killed together with its children, and what it says is bounded. Lists are read by knftables, which has
// only the deadline.
type nftTable struct {
	knftables.Interface

	program string // a path, or a name to look for in PATH
}

// openNFT looks whether there is an nft that can be used.
func openNFT(ctx context.Context, name string) (nftTable, error) {
	t := nftTable{program: "nft"}
	_, err := process.Command{Path: t.program, Args: []string{"--version"}, Timeout: nftTimeout}.Run(ctx)
	if process.Broke(err) && !process.Missing(err) {
		return t, err // no file descriptors left, for instance: it may be there
	}
	if err == nil {
		t.Interface, err = knftables.New(knftables.InetFamily, name)
	}
	if err != nil {
		return t, &backends.UnsupportedError{Feature: "a usable nft program", Minimum: "nft 1.0.1", Err: err}
	}
	return t, nil
}

// Run writes a transaction. A program that was killed leaves open whether it wrote.
func (t nftTable) Run(ctx context.Context, tx *knftables.Transaction) error {
	text := tx.String()
	// An object that knftables found invalid ends the text with this line.
	if _, invalid, ok := strings.Cut("\n"+text, "\n# ERROR: "); ok {
		return errors.New(invalid)
	}
	_, err := process.Command{Path: t.program, Args: []string{"-f", "-"}, Input: []byte(text), Timeout: nftTimeout, Grace: process.Grace}.Run(ctx)
	return err
}

// List lists the objects of a kind.
func (t nftTable) List(ctx context.Context, kind string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, nftTimeout)
	defer cancel()
	return t.Interface.List(ctx, kind)
}

// ListElements lists what is in a set or map.
func (t nftTable) ListElements(ctx context.Context, kind, name string) ([]*knftables.Element, error) {
	ctx, cancel := context.WithTimeout(ctx, nftTimeout)
	defer cancel()
	return t.Interface.ListElements(ctx, kind, name)
}
