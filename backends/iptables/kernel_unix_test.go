//go:build unix

package iptables

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/vipkit/vipkit/backends/internal/process"
	"github.com/vipkit/vipkit/proxy/plan"
)

// withPrograms returns a backend whose programs are a shell script.
func withPrograms(t *testing.T, script string, timeout time.Duration) *Backend {
	t.Helper()
	dir := t.TempDir()
	for _, f := range families() {
		for _, name := range []string{"", "-save", "-restore"} {
			if err := os.WriteFile(filepath.Join(dir, f.command+name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	b, err := New(Options{Timeout: timeout, LockWait: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	b.kernel = newFakeKernel()
	return b
}

func TestBrokenPrograms(t *testing.T) {
	const quickly, slowly = 50 * time.Millisecond, time.Minute
	full := plan.Full(plan.New(plan.Config{}))
	t.Run("fault F14 the programs hang", func(t *testing.T) {
		b := withPrograms(t, "sleep 1000 & sleep 1000", quickly)
		if err := b.Sync(t.Context(), full); !errors.Is(err, process.ErrKilled) || b.families != nil {
			t.Errorf("Sync = %v and %d families, want killed and no decision", err, len(b.families))
		}
	})
	t.Run("fault F14 what cannot be run is not missing", func(t *testing.T) {
		b := withPrograms(t, "kill -SEGV $$", slowly)
		if err := b.Probe(t.Context()); err == nil || errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Probe = %v, want an error that does not say what is missing", err)
		}
	})
	t.Run("a version that cannot be told is not that of the other variant", func(t *testing.T) {
		// Only iptables-save answers, so that a Sync which takes the programs for legacy ones gets further.
		b := withPrograms(t, `case "$*" in *--version*) kill -SEGV $$;; esac`, slowly)
		if err := b.Sync(t.Context(), full); !process.Broke(err) || b.families != nil {
			t.Errorf("Sync = %v and %d families, want no decision", err, len(b.families))
		}
		if err := b.Cleanup(t.Context()); !process.Broke(err) {
			t.Errorf("Cleanup = %v, want why the variant is not known", err)
		}
	})
	t.Run("fault F14 a restore that writes nothing", func(t *testing.T) {
		k := newFakeKernel()
		b := k.backend(t, Options{})
		lying := true
		b.runner = liar{k, &lying}
		if err := b.Sync(t.Context(), full); !errors.Is(err, errNothingWritten) {
			t.Errorf("Sync = %v, want %v", err, errNothingWritten)
		}
		lying = false
		if err := b.Sync(t.Context(), full); err != nil || !b.LastStats().Full {
			t.Errorf("the next Sync: %v and %+v, want all written", err, b.LastStats())
		}
	})
	t.Run("fault F14 endless complaints", func(t *testing.T) {
		b := withPrograms(t, "yes 'error: foo' | head -c 50000000 >&2; exit 1", slowly)
		err := b.Sync(t.Context(), full)
		if err == nil || len(err.Error()) > 3000 || !strings.Contains(err.Error(), "error: foo") {
			t.Errorf("Sync = %.4000v, want a bounded error", err)
		}
	})
}
