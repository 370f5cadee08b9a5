package ipvs

import (
	"context"
	"errors"
	"strings"
	"time"

	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/internal/nftgen"
	"github.com/vipkit/vipkit/backends/internal/process"
)

// nftTimeout is how long one run of nft may take: it reads and writes whole tables here.
const nftTimeout = time.Minute

// An nftTable is the table of nftables, written by the program. What is written is run by package process: a run that
// does not end is killed together with its children, and what it says is bounded. Lists are read by knftables, which has
// only the deadline.
type nftTable struct {
	knftables.Interface

	program    string                 // a path, or a name to look for in PATH
	generation func() (uint32, error) // of nftables
}

// openNFT looks whether there is an nft that can be used.
func openNFT(ctx context.Context, name string) (nftTable, error) {
	t := nftTable{program: "nft", generation: nftgen.Read}
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

// errNothingWritten is the error of an nft that says it has written and has not.
var errNothingWritten = errors.New("nft ended without an error and has written nothing")

// Run writes a transaction. A program that was killed leaves open whether it wrote.
func (t nftTable) Run(ctx context.Context, tx *knftables.Transaction) error {
	text := tx.String()
	// An object that knftables found invalid ends the text with this line.
	if _, invalid, ok := strings.Cut("\n"+text, "\n# ERROR: "); ok {
		return errors.New(invalid)
	}
	before, unread := t.generation()
	_, err := process.Command{Path: t.program, Args: []string{"-f", "-"}, Input: []byte(text), Timeout: nftTimeout, Grace: process.Grace}.Run(ctx)
	if err != nil || unread != nil || tx.NumOperations() == 0 {
		return err
	}
	if after, err := t.generation(); err == nil && after == before {
		return errNothingWritten
	}
	return nil
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
