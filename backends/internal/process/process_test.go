//go:build unix

package process_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/vipkit/vipkit/backends/internal/process"
)

// script makes a program of the text of a shell script.
func script(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// The deadline of programs that are to be killed, and of those that are not.
const (
	short = 100 * time.Millisecond
	long  = time.Minute
)

func TestHangingProgramIsKilled(t *testing.T) {
	for name, text := range map[string]string{
		"fault F14 it hangs":                         "exec sleep 1000",
		"fault F14 its child hangs":                  "sleep 1000",
		"fault F14 a child that nobody waits for":    "sleep 1000 & sleep 1000",
		"fault F14 it ignores every signal it can":   "trap '' TERM INT HUP; sleep 1000; sleep 1000",
		"fault F14 a child of another session hangs": "setsid sleep 3 & exec sleep 1000",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := process.Command{Path: script(t, text), Timeout: short}.Run(t.Context())
			if !errors.Is(err, process.ErrKilled) || !process.Broke(err) || !strings.Contains(err.Error(), "killed after 100ms") {
				t.Errorf("error %v, want one that says when it was killed", err)
			}
		})
	}
}

func TestContextEndsProgram(t *testing.T) {
	t.Run("fault F14 after the grace", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		started := filepath.Join(t.TempDir(), "started")
		done := make(chan error)
		go func() {
			_, err := process.Command{Path: script(t, "touch "+started+"; exec sleep 1000"), Timeout: long, Grace: short}.Run(ctx)
			done <- err
		}()
		for _, err := os.Stat(started); err != nil; _, err = os.Stat(started) {
			continue
		}
		cancel()
		if err := <-done; !errors.Is(err, process.ErrKilled) || !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want killed and canceled", err)
		}
	})
	t.Run("fault F14 who is quick enough is not killed", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		pipe := filepath.Join(t.TempDir(), "ready")
		done := make(chan error)
		go func() {
			out, err := process.Command{Path: script(t, "touch "+pipe+"; while [ -e "+pipe+" ]; do :; done; echo written"), Timeout: long, Grace: long}.Run(ctx)
			if out != "written\n" {
				err = errors.Join(err, errors.New(out))
			}
			done <- err
		}()
		for _, err := os.Stat(pipe); err != nil; _, err = os.Stat(pipe) {
			continue
		}
		cancel()
		if err := os.Remove(pipe); err != nil {
			t.Error(err)
		}
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Run("fault F14 nothing is started once it is done", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := (process.Command{Path: "/nowhere", Timeout: long}).Run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v, want canceled", err)
		}
	})
}

func TestOutput(t *testing.T) {
	t.Run("fault F14 endless complaints are not kept", func(t *testing.T) {
		_, err := process.Command{Path: script(t, "yes 'error: foo' | head -c 200000000 >&2; exit 1"), Timeout: long}.Run(t.Context())
		var e *process.Error
		if !errors.As(err, &e) || !e.Refused || len(e.Said) > 1<<16 {
			t.Fatalf("error %.200v, want a refusal that keeps little", err)
		}
		if want := "exit status 1: error: foo; error: foo; error: foo"; !strings.HasSuffix(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	})
	t.Run("fault F14 garbage is made printable", func(t *testing.T) {
		_, err := process.Command{Path: script(t, `head -c 3000 /dev/zero | tr '\000' '\377' >&2; printf '\033[31m' >&2; exit 1`), Timeout: long}.Run(t.Context())
		if err == nil || len(err.Error()) > 1200 || !utf8.ValidString(err.Error()) || strings.ContainsAny(err.Error(), "\x1b\n") {
			t.Errorf("error %q is not fit to be printed", err)
		}
	})
	t.Run("fault F14 more than is read", func(t *testing.T) {
		_, err := process.Command{Path: script(t, "yes"), Timeout: long, Output: 1000}.Run(t.Context())
		if !process.Broke(err) || !strings.Contains(err.Error(), "more output than is read") {
			t.Errorf("error %v, want too much output", err)
		}
	})
	t.Run("all of it", func(t *testing.T) {
		in := strings.Repeat("0123456789abcde\n", 10_000)
		out, err := process.Command{Path: script(t, "cat"), Timeout: long, Input: []byte(in), Output: len(in)}.Run(t.Context())
		if err != nil || out != in {
			t.Errorf("%d bytes and %v, want %d", len(out), err, len(in))
		}
	})
}

func TestReasons(t *testing.T) {
	t.Run("fault F14 a program that is missing", func(t *testing.T) {
		for _, path := range []string{"no-such-program-vipkit", filepath.Join(t.TempDir(), "none")} {
			if _, err := (process.Command{Path: path, Timeout: long}).Run(t.Context()); !process.Missing(err) || !process.Broke(err) {
				t.Errorf("%s: %v, want missing", path, err)
			}
		}
	})
	t.Run("fault F14 one that cannot be started", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "text")
		if err := os.WriteFile(path, []byte("no program"), 0o755); err != nil {
			t.Fatal(err)
		}
		if _, err := (process.Command{Path: path, Timeout: long}).Run(t.Context()); process.Missing(err) || !process.Broke(err) {
			t.Errorf("%v is taken for missing", err)
		}
	})
	t.Run("fault F14 one that crashes", func(t *testing.T) {
		_, err := process.Command{Path: script(t, "kill -SEGV $$"), Timeout: long}.Run(t.Context())
		if !process.Broke(err) || process.Missing(err) {
			t.Errorf("%v, want broken", err)
		}
	})
	t.Run("one that refuses", func(t *testing.T) {
		_, err := process.Command{Path: script(t, "echo no such file or directory >&2; exit 2"), Timeout: long}.Run(t.Context())
		if process.Broke(err) || process.Missing(err) || err == nil {
			t.Errorf("%v, want a refusal", err)
		}
	})
}
