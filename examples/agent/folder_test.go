package main

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A followed is a folder that is looked at when the test says so.
type followed struct {
	*fakeCluster
	dir    string
	folder *folder
}

func newFollowed(t *testing.T) *followed {
	t.Helper()
	f := &followed{fakeCluster: newFakeCluster(t, nil), dir: t.TempDir()}
	f.folder = newFolder(f.dir, false, f.agent.logger)
	return f
}

// look looks at the folder as if so much time had passed since now.
func (f *followed) look(t *testing.T, later time.Duration) {
	t.Helper()
	if err := f.folder.look(time.Now().Add(later), f.feed); err != nil {
		t.Fatal(err)
	}
}

// verdict does a round and asks what becomes of a packet to service(…, n, …).
func (f *followed) verdict(t *testing.T, n int) plan.Verdict {
	t.Helper()
	return f.step(t).Trace(plan.Packet{
		Source:      netip.MustParseAddr("203.0.113.7"),
		Destination: netip.MustParseAddrPort(clusterIP(n)),
		Protocol:    corev1.ProtocolTCP,
	}).Verdict
}

func TestFolderWaitsForWriter(t *testing.T) {
	f := newFollowed(t)
	write(t, f.dir, "web.yaml", service("web", 10, "", podOne))
	f.look(t, time.Minute)
	if got := f.verdict(t, 10); got != plan.Forward {
		t.Fatalf("verdict %s", got)
	}
	// An editor that writes in place empties the file first.
	if err := os.Truncate(filepath.Join(f.dir, "web.yaml"), 0); err != nil {
		t.Fatal(err)
	}
	f.look(t, 0)
	if got := f.verdict(t, 10); got != plan.Forward {
		t.Errorf("while the file is written: %s", got)
	}
	// A file that stays empty has no objects.
	f.look(t, time.Minute)
	if got := f.verdict(t, 10); got != plan.Pass {
		t.Errorf("an empty file: %s", got)
	}
}

func TestFolderHoldsBackUntilComplete(t *testing.T) {
	f := newFollowed(t)
	write(t, f.dir, "web.yaml", service("web", 10, "", podOne))
	write(t, f.dir, "api.yaml", "kind: [")
	f.look(t, time.Minute)
	if err := f.agent.proxy.Step(t.Context()); !errors.Is(err, proxy.ErrGated) {
		t.Errorf("#20 Step with a file that was never read: %v, want %v", err, proxy.ErrGated)
	}
	write(t, f.dir, "api.yaml", service("api", 11, ""))
	f.look(t, time.Minute)
	if web, api := f.verdict(t, 10), f.verdict(t, 11); web != plan.Forward || api != plan.Reject {
		t.Errorf("verdicts %s and %s", web, api)
	}
}

func TestFolderLaterFileWins(t *testing.T) {
	f := newFollowed(t)
	write(t, f.dir, "10.yaml", service("web", 10, "", podOne))
	write(t, f.dir, "20.yaml", service("web", 10, ""))
	f.look(t, time.Minute)
	if got := f.verdict(t, 10); got != plan.Reject {
		t.Errorf("verdict %s, want that of the later file", got)
	}
	if err := os.Remove(filepath.Join(f.dir, "20.yaml")); err != nil {
		t.Fatal(err)
	}
	f.look(t, time.Minute)
	if got := f.verdict(t, 10); got != plan.Forward {
		t.Errorf("verdict %s, want that of the file which is left", got)
	}
}

func TestFolderThatVanishes(t *testing.T) {
	f := newFollowed(t)
	write(t, f.dir, "web.yaml", service("web", 10, "", podOne))
	f.look(t, time.Minute)
	f.verdict(t, 10)
	if err := os.Rename(f.dir, f.dir+".away"); err != nil {
		t.Fatal(err)
	}
	f.look(t, time.Minute)
	if got := f.verdict(t, 10); got != plan.Forward {
		t.Errorf("without the folder: %s, want what was there", got)
	}
}

// TestFolderHostile puts something into the folder that could be read for ever.
func TestFolderHostile(t *testing.T) {
	pipe := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	zeros := func(path string) error { return os.Symlink("/dev/zero", path) }
	broken := func(path string) error { return os.WriteFile(path, []byte("kind: ["), 0o600) }
	for name, put := range map[string]func(string) error{"a pipe": pipe, "a device": zeros, "no YAML": broken} {
		t.Run("fault F18 "+name+" does not hold back the other files", func(t *testing.T) {
			f := newFollowed(t)
			write(t, f.dir, "web.yaml", service("web", 10, "", podOne))
			f.look(t, time.Minute)
			if err := put(filepath.Join(f.dir, "x.yaml")); err != nil {
				t.Fatal(err)
			}
			write(t, f.dir, "web.yaml", service("web", 10, ""))
			f.look(t, time.Minute)
			if got := f.verdict(t, 10); got != plan.Reject {
				t.Errorf("verdict %s, want that of the change", got)
			}
		})
	}
	t.Run("a file that comes is waited for", func(t *testing.T) {
		f := newFollowed(t)
		write(t, f.dir, "web.yaml", service("web", 10, "", podOne))
		f.look(t, time.Minute)
		write(t, f.dir, "other.yaml", service("web", 10, "", podOne))
		if err := os.Remove(filepath.Join(f.dir, "web.yaml")); err != nil {
			t.Fatal(err)
		}
		f.look(t, 0) // the new file is fresh
		if got := f.verdict(t, 10); got != plan.Forward {
			t.Errorf("verdict %s while the Service moves to another file", got)
		}
	})
}

// TestFolderFuture has a file that was written in the future: by another clock, or before
// this one was set back.
func TestFolderFuture(t *testing.T) {
	f := newFollowed(t)
	name := filepath.Join(f.dir, "web.yaml")
	future := time.Now().Add(24 * time.Hour)
	put := func(data string, at time.Time) {
		t.Helper()
		write(t, f.dir, "web.yaml", data)
		if err := os.Chtimes(name, at, at); err != nil {
			t.Fatal(err)
		}
	}
	put(service("web", 10, "", podOne), future)
	f.look(t, 0)
	f.look(t, pollInterval)
	if got := f.verdict(t, 10); got != plan.Forward {
		t.Fatalf("verdict %s, want the file to be read once it does not change", got)
	}
	known := f.folder.files[name]
	if known.seen == (stamp{}) {
		t.Error("fault F18 the file is read again although it does not change")
	}
	objects := known.objects
	put(service("web", 10, "", podOne), future.Add(time.Second)) // touched
	f.look(t, 2*pollInterval)
	f.look(t, 3*pollInterval)
	if known.objects != objects {
		t.Error("fault F18 the same content was parsed again")
	}
	put(service("web", 10, ""), future.Add(2*time.Second))
	f.look(t, 4*pollInterval)
	f.look(t, 5*pollInterval)
	if got := f.verdict(t, 10); got != plan.Reject {
		t.Errorf("verdict %s, want that of the change", got)
	}
}

// TestStops has jobs that hang.
func TestStops(t *testing.T) {
	t.Run("fault F18 a job that hangs is not waited for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			hangs := make(chan struct{})
			jobs := newJobs(t.Context())
			jobs.start(func(context.Context) error { <-hangs; return nil })
			jobs.do(func(context.Context) error { return nil })
			if err := jobs.wait(); err == nil {
				t.Error("no error")
			}
			close(hangs)
		})
	})
}
