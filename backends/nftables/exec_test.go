//go:build unix

package nftables

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/internal/process"
	"github.com/vipkit/vipkit/proxy/plan"
)

// withProgram returns a backend whose nft is a shell script, and whose kernel has nothing.
func withProgram(t *testing.T, script string, timeout time.Duration) (*Backend, *nowhere) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nft")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	b, n := newBackend(t, Options{NFT: path, Timeout: timeout}), &nowhere{}
	b.kernel = n
	return b, n
}

// quickly is a deadline for programs that hang, slowly one for those that do not.
const (
	quickly = 100 * time.Millisecond
	slowly  = time.Minute
)

func TestBrokenProgram(t *testing.T) {
	for _, tt := range []struct {
		name, script, want string
		timeout            time.Duration
	}{
		{"fault F14 nft hangs", "exec sleep 1000", "killed after 100ms", quickly},
		{"fault F14 nft's child hangs", "sleep 1000 & sleep 1000", "killed after 100ms", quickly},
		{"fault F14 nft crashes", "kill -SEGV $$", "segmentation fault", slowly},
		{"fault F14 nft says garbage without end", "cat >/dev/null; head -c 3000000 /dev/urandom >&2; exit 1", "exit status 1", slowly},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b, n := withProgram(t, tt.script, tt.timeout)
			b.runner = trusting{b.runner}
			w := newWorld(t, nodeConfig())
			err := w.try(b, with(app{name: "a", vip: "10.96.0.1", eps: two}, app{name: "b", vip: "10.96.0.2", eps: two}))
			if err == nil || isPartial(err) || !strings.Contains(err.Error(), tt.want) || len(err.Error()) > 2000 {
				t.Fatalf("Sync = %.3000v, want an error of the whole with %q", err, tt.want)
			}
			b.runner = n
			if s := w.sync(b, plan.Input{}); !s.Full {
				t.Error("the next Sync reads nothing, though nobody knows what is in the kernel")
			}
		})
	}
}

// A trusting runner asks nothing of nft before it writes.
type trusting struct{ runner }

func (trusting) check(context.Context, []byte) error { return nil }

func TestTransientErrorsDecideNothing(t *testing.T) {
	t.Run("fault F14 a family is not left out because nft could not be started", func(t *testing.T) {
		b, n := withProgram(t, "exec sleep 1000", quickly)
		w := newWorld(t, nodeConfig())
		err := w.try(b, with(app{name: "a", vip: "10.96.0.1 fd00::1", eps: dual}))
		if !errors.Is(err, process.ErrKilled) || b.tables != nil {
			t.Fatalf("Sync = %v and %d tables, want no decision", err, len(b.tables))
		}
		b.runner = n
		if w.sync(b, plan.Input{}); len(b.tables) != 2 {
			t.Errorf("%d families in use, want both", len(b.tables))
		}
	})
	t.Run("fault F14 only a program that does not exist is missing", func(t *testing.T) {
		b, _ := withProgram(t, "kill -KILL $$", slowly)
		if err := b.Probe(t.Context()); err == nil || errors.Is(err, errors.ErrUnsupported) || strings.Contains(err.Error(), "missing") {
			t.Errorf("Probe = %v, want an error that does not say what is missing", err)
		}
		b.runner = nftProgram{filepath.Join(t.TempDir(), "none"), slowly}
		if err := b.Probe(t.Context()); !errors.Is(err, errors.ErrUnsupported) {
			t.Errorf("Probe = %v, want missing", err)
		}
	})
	t.Run("fault F14 a Sync that is stopped ends", func(t *testing.T) {
		b, _ := withProgram(t, "exec sleep 1000", quickly)
		b.opts.Families = []corev1.IPFamily{corev1.IPv4Protocol}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := b.Sync(ctx, plan.Full(plan.New(nodeConfig()))); !errors.Is(err, context.Canceled) {
			t.Errorf("Sync = %v, want canceled", err)
		}
	})
}

func TestProgramThatLies(t *testing.T) {
	t.Run("fault F14 nft ends with status 0 and has written nothing", func(t *testing.T) {
		b, n := withProgram(t, "cat >/dev/null", slowly)
		w := newWorld(t, nodeConfig())
		if err := w.try(b, with(app{name: "a", vip: "10.96.0.1", eps: two})); !errors.Is(err, errNothingWritten) || isPartial(err) {
			t.Fatalf("Sync = %v, want %v", err, errNothingWritten)
		}
		b.runner = n
		if s := w.sync(b, plan.Input{}); !s.Full || s.Changes != 1 {
			t.Errorf("the next Sync did %+v, want it to write all", s)
		}
		b.runner = nftProgram{b.opts.NFT, slowly}
		if err := w.try(b, with(app{name: "a", vip: "10.96.0.1", eps: "10.180.0.1:8080"})); !errors.Is(err, errNothingWritten) {
			t.Errorf("Sync = %v, want %v", err, errNothingWritten)
		}
	})
}

func TestRefusals(t *testing.T) {
	apps := func(eps string) (all []app) {
		for i := range 300 {
			all = append(all, app{name: fmt.Sprintf("s%03d", i), vip: fmt.Sprintf("10.96.%d.%d", i/100, i%100), eps: eps})
		}
		return all
	}
	t.Run("fault F13 nft that refuses all is not asked for each port", func(t *testing.T) {
		b, r := inNowhere(t, Options{})
		w := newWorld(t, nodeConfig())
		w.sync(b, with(apps(two)...))
		runs := 0
		r.refuse = func(string) error { runs++; return errRefused }
		if got := failed(t, w.try(b, with(apps("10.180.0.9:8080")...))); len(got) != 300 {
			t.Errorf("%d ports failed, want all", len(got))
		}
		if runs > 2*maxRefusals {
			t.Errorf("%d runs of nft, want at most %d", runs, 2*maxRefusals)
		}
		r.refuse = nil
		if s := w.sync(b, plan.Input{}); s.Changes != 300 {
			t.Errorf("%d ports changed, want all", s.Changes)
		}
	})
	t.Run("fault F13 many bad ports do not keep the good ones for ever", func(t *testing.T) {
		b, r := inNowhere(t, Options{})
		w := newWorld(t, nodeConfig())
		w.sync(b, with(apps(two)...))
		r.refuse = func(text string) error { // every port of the first and the third hundred
			if strings.Contains(text, "10.96.0.") || strings.Contains(text, "10.96.2.") {
				return errRefused
			}
			return nil
		}
		err := w.try(b, with(apps("10.180.0.9:8080")...))
		for range 10 {
			if len(failed(t, err)) == 200 {
				break
			}
			err = w.try(b, plan.Input{})
		}
		if got := failed(t, err); len(got) != 200 || slices.Contains(got, "s150/IPv4") {
			t.Errorf("%d ports still fail, want 200", len(got))
		}
	})
}

func TestLimits(t *testing.T) {
	big := func(local bool) (all string) {
		var eps strings.Builder
		for i := range maxPool + 1 {
			at := netip.AddrFrom4([4]byte{10, byte(181 + i>>16), byte(i >> 8), byte(i)})
			node := "n2"
			if local {
				node = "n1"
			}
			fmt.Fprintf(&eps, "%s:8080@%s ", at, node)
		}
		return eps.String() + "10.180.0.1:8080@n1"
	}
	t.Run("fault F11 a pool with more endpoints than slots", func(t *testing.T) {
		b, r := inNowhere(t, Options{})
		w := newWorld(t, nodeConfig())
		small := app{name: "big", vip: "10.96.0.1 ", eps: two, change: externals}
		w.sync(b, with(small))
		r.clear()
		grown := small
		grown.eps = big(false)
		err := w.try(b, with(grown, app{name: "b", vip: "10.96.0.2", eps: two}))
		wantBeyond(t, err, "65538 endpoints in the cluster pool, at most 65536 can be")
		if text := strings.Join(r.written(), "\n"); strings.Contains(text, "10.96.0.1 ") || !strings.Contains(text, "10.96.0.2 ") || len(r.texts) != 1 {
			t.Errorf("written in %d runs: %.500s, want the other port only", len(r.texts), text)
		}

		// An address that another Service takes is free for it.
		thief := app{name: "thief", vip: "10.96.0.3", eps: two, change: externals}
		grown.change = nil
		wantBeyond(t, w.try(b, with(grown, thief)), "65538 endpoints in the cluster pool, at most 65536 can be")
		if b.ports[w.keyOf("thief")] == nil {
			t.Error("the Service that takes the address is not in place")
		}
		w.cursor.Reset()
		wantBeyond(t, w.try(b, plan.Input{}), "65538 endpoints in the cluster pool, at most 65536 can be")
		if b.ports[w.keyOf("big")] == nil {
			t.Error("a full Sync has removed what was in place")
		}
		w.sync(b, with(app{name: "big", vip: "10.96.0.1", eps: two}))
		if p := b.ports[w.keyOf("big")].port; p != w.plan.Port(p.Key) {
			t.Error("the port that is within its limits again is not in place")
		}
	})
}

// keyOf is the key of the port of an app, over IPv4.
func (w *world) keyOf(name string) plan.Key {
	for port := range w.plan.All() {
		if port.Name == name && port.Family == "IPv4" {
			return port.Key
		}
	}
	return plan.Key{}
}

func wantBeyond(t *testing.T, err error, text string) {
	t.Helper()
	var partial *plan.PartialError
	if !errors.As(err, &partial) || len(partial.Ports) != 1 || !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), text) {
		t.Fatalf("Sync = %v, want %s", err, text)
	}
}
