//go:build unix

package ipvs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
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

// A stuck reader of tables ends with its context only.
type stuck struct{ *knftables.Fake }

func (stuck) List(ctx context.Context, _ string) ([]string, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func (stuck) ListElements(ctx context.Context, _, _ string) ([]*knftables.Element, error) {
	<-ctx.Done()
	return nil, ctx.Err()
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
		return nftTable{fake, program, func() (uint32, error) { n += commits; return n, nil }}
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
	t.Run("fault F14 ipvs: lists have a deadline", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			nft, start := nftTable{Interface: stuck{fake}}, time.Now()
			_, listed := nft.List(t.Context(), "chains")
			_, elements := nft.ListElements(t.Context(), "set", "frontends-4")
			for _, err := range []error{listed, elements} {
				if !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("error %v, want the deadline", err)
				}
			}
			if took := time.Since(start); took != 2*nftTimeout {
				t.Errorf("two runs took %v, want %v", took, 2*nftTimeout)
			}
		})
	})
}
