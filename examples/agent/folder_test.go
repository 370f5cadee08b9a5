package main

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
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
