//go:build unix

package ipvs

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sigs.k8s.io/knftables"

	"github.com/vipkit/vipkit/backends/internal/process"
)

// script makes a program of the text of a shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nft")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestProgram(t *testing.T) {
	fake := knftables.NewFake(knftables.InetFamily, "vipkit-ipvs")
	add := func() *knftables.Transaction {
		tx := fake.NewTransaction()
		tx.Add(&knftables.Table{})
		return tx
	}
	table := func(program string, commits uint32) nftTable {
		var n uint32
		return nftTable{fake, "vipkit-ipvs", program, func() (uint32, error) { n += commits; return n, nil }}
	}
	t.Run("fault F14 ipvs: a stopped Sync does not wait for an nft that hangs, nor for its children", func(t *testing.T) {
		t.Parallel() // the program has process.Grace to end
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		err := table(script(t, "sleep 1000 & sleep 1000"), 0).Run(ctx, add())
		if !errors.Is(err, process.ErrKilled) {
			t.Errorf("Run: %v, want that it was killed", err)
		}
	})
	t.Run("fault F14 ipvs: what nft complains of is bounded", func(t *testing.T) {
		err := table(script(t, "cat >/dev/null; yes error | head -c 50000000 >&2; exit 1"), 0).Run(t.Context(), add())
		if err == nil || len(err.Error()) > 2000 {
			t.Errorf("Run: an error of %d bytes", len(err.Error()))
		}
	})
	t.Run("fault F14 ipvs: an nft that says nothing and writes nothing", func(t *testing.T) {
		if err := table(script(t, "cat >/dev/null"), 0).Run(t.Context(), add()); !errors.Is(err, errNothingWritten) {
			t.Errorf("Run: %v, want that nothing was written", err)
		}
		if err := table(script(t, "cat >/dev/null"), 1).Run(t.Context(), add()); err != nil {
			t.Errorf("Run of one that writes: %v", err)
		}
	})
	t.Run("an object that is not valid is not written", func(t *testing.T) {
		tx := add()
		tx.Add(&knftables.Chain{})
		if err := table(script(t, "cat >/dev/null"), 1).Run(t.Context(), tx); err == nil {
			t.Error("Run says nothing")
		}
	})
	t.Run("fault F14 ipvs: a stopped Sync does not wait for an nft that lists for ever", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := table(script(t, "sleep 1000"), 0).read(ctx); !errors.Is(err, process.ErrKilled) {
			t.Errorf("read: %v, want that it was killed", err)
		}
	})
	t.Run("no table is an empty one, and what cannot be listed is an error", func(t *testing.T) {
		none := `echo "Error: No such file or directory" >&2; exit 1`
		if got, err := table(script(t, none), 0).read(t.Context()); err != nil || got.chains != nil {
			t.Errorf("read without a table: %v, %v", got, err)
		}
		for _, broken := range []string{"exit 1", "echo '{'", "echo No such file or directory >&2; kill -9 $$"} {
			if _, err := table(script(t, broken), 0).read(t.Context()); err == nil {
				t.Errorf("%s: read says nothing", broken)
			}
		}
	})
}

// One object of each kind, as nft 1.0.6 lists them.
func TestParseTable(t *testing.T) {
	got, err := parseTable(`{"nftables": [{"metainfo": {"json_schema_version": 1}}, {"table": {"name": "t"}},
		{"set": {"name": "a", "elem": [{"concat": ["10.0.0.1", "tcp", 80, {"prefix": {"addr": "10.0.0.0", "len": 8}}]}]}},
		{"set": {"name": "h", "elem": [80, {"elem": {"val": 443, "comment": "x"}}]}}, {"set": {"name": "m", "elem": [1442840577]}},
		{"map": {"name": "d", "elem": [[{"concat": ["1.1.1.2", "udp", 53]}, {"goto": {"target": "x"}}], ["1.1.1.1", {"drop": null}]]}},
		{"map": {"name": "p", "elem": [["1.1.1.1", 1442840577]]}}, {"set": {"name": "empty"}},
		{"chain": {"name": "x"}}, {"chain": {"name": "y"}}, {"rule": {"chain": "x", "expr": [{"drop": null}]}}]}`)
	if err != nil {
		t.Fatal(err)
	}
	want := []element{
		{cell{"a", "10.0.0.1 . tcp . 80 . 10.0.0.0/8"}, ""},
		{cell{"h", "80"}, ""},
		{cell{"h", "443"}, ""},
		{cell{"m", "0x56000001"}, ""},
		{cell{"d", "1.1.1.2 . udp . 53"}, "goto x"},
		{cell{"d", "1.1.1.1"}, "drop"},
		{cell{"p", "1.1.1.1"}, "0x56000001"},
	}
	if !slices.Equal(got.elements, want) {
		t.Errorf("elements %q, want %q", got.elements, want)
	}
	if chains := map[string]int{"x": 1, "y": 0}; !maps.Equal(got.chains, chains) {
		t.Errorf("chains %v, want %v", got.chains, chains)
	}
}
