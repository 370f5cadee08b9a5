package main

import (
	"errors"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/backends/ipvs"
)

// hasIPVS reports whether the kernel has IPVS, which it must where the environment says so.
func hasIPVS(t *testing.T) bool {
	t.Helper()
	k, err := ipvs.Open()
	if err == nil {
		err = k.Close()
	} else if errors.Is(err, errors.ErrUnsupported) && !strings.Contains(os.Getenv("VIPKIT_REQUIRE_KERNEL"), "ipvs") {
		return false
	}
	if err != nil {
		t.Fatal(err)
	}
	return true
}

func TestWithoutIPVS(t *testing.T) {
	if hasIPVS(t) {
		t.Skip("this kernel has IPVS") // TestIPVS runs
	}
	lab, dir := newLab(t), t.TempDir()
	c := start(t, lab, args(dir, "-backend", "ipvs", "-once")...)
	if code := c.wait(t); code != exitFailed {
		t.Errorf("code %d, want %d", code, exitFailed)
	}
	if log := c.text(); strings.Count(log, "\n") != 1 || !strings.Contains(log, "kernel module ip_vs") {
		t.Errorf("log %q, want one line that names the module", log)
	}
	if code := start(t, lab, "-cleanup", "-backend", "ipvs").wait(t); code != exitOK {
		t.Errorf("-cleanup: code %d", code)
	}
}

func TestIPVS(t *testing.T) {
	if !hasIPVS(t) {
		t.Skip("this kernel has no IPVS") // TestWithoutIPVS runs
	}
	lab, dir := newLab(t), t.TempDir()
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	c := start(t, lab, args(dir, "-backend", "ipvs")...)
	expect(t, lab, clusterIP(10), podOne)
	write(t, dir, "web.yaml", service("web", 10, "", podTwo))
	expect(t, lab, clusterIP(10), podTwo)
	c.signal(t, syscall.SIGTERM)
	if code := c.wait(t); code != exitOK {
		t.Errorf("SIGTERM: code %d", code)
	}
	expect(t, lab, clusterIP(10), podTwo)
	if code := start(t, lab, "-cleanup", "-backend", "ipvs").wait(t); code != exitOK {
		t.Errorf("-cleanup: code %d", code)
	}
	if got := nft(t, lab, "list", "tables"); got != "" {
		t.Errorf("tables after -cleanup: %q", got)
	}
	if got := dial(t, lab, "pod", clusterIP(10), 0); got == podTwo {
		t.Errorf("after -cleanup the Service is served")
	}
}

// One backend takes over from the other: the new one starts, then the old one is removed.
func TestSwitchIPVS(t *testing.T) {
	if !hasIPVS(t) {
		t.Skip("this kernel has no IPVS")
	}
	for _, way := range [][2]string{{"nftables", "ipvs"}, {"ipvs", "nftables"}} {
		t.Run(way[0]+" to "+way[1], func(t *testing.T) {
			lab, dir := newLab(t), t.TempDir()
			write(t, dir, "web.yaml", service("web", 10, "", podOne))
			if code, _ := once(t, lab, args(dir, "-backend", way[0])...); code != exitOK {
				t.Fatalf("first backend: code %d", code)
			}
			expect(t, lab, clusterIP(10), podOne)
			done := make(chan struct{})
			var wg sync.WaitGroup
			wg.Go(func() { dialAlways(t, lab, done) })
			if code, _ := once(t, lab, args(dir, "-backend", way[1])...); code != exitOK {
				t.Errorf("second backend: code %d", code)
			}
			if code := start(t, lab, "-cleanup", "-backend", way[0]).wait(t); code != exitOK {
				t.Errorf("-cleanup of the first: code %d", code)
			}
			close(done)
			wg.Wait()
		})
	}
}

// dialAlways makes one connection after the other until done is closed; none may fail.
func dialAlways(t *testing.T, lab *netlab.Lab, done <-chan struct{}) {
	t.Helper()
	for last := false; !last; {
		select {
		case <-done:
			last = true
		default:
		}
		if got := dialQuietly(lab, "pod", clusterIP(10), patience); got != podOne {
			t.Errorf("while it is switched: got %s, want %s", got, podOne)
			return
		}
	}
}
