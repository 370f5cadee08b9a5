package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

// args are the flags that all tests in a lab use.
func args(dir string, more ...string) []string {
	return append([]string{
		"-node-name", "node-1", "-source", "dir=" + dir, "-node-ip", nodeIP, "-pod-interface", "veth*", "-min-sync", "10ms",
		"-conntrack-max-per-core", "0", // the size of the table is the host's
	}, more...)
}

func TestOnce(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	code, r := once(t, lab, args(dir)...)
	if code != exitOK || !r.full || r.changes != 2 || r.statements == 0 || r.failed != 0 {
		t.Errorf("first: code %d, round %+v", code, r)
	}
	expect(t, lab, clusterIP(10), podOne)
	code, r = once(t, lab, args(dir)...)
	if code != exitOK || !r.full || r.statements != 0 || r.failed != 0 {
		t.Errorf("again: code %d, round %+v, want nothing to be written", code, r)
	}
	write(t, dir, "web.yaml", service("web", 10, "", podTwo))
	if code, r = once(t, lab, args(dir)...); code != exitOK || r.statements == 0 {
		t.Errorf("after a change: code %d, round %+v", code, r)
	}
	expect(t, lab, clusterIP(10), podTwo)

	write(t, dir, "broken.yaml", "kind: [")
	if code, r = once(t, lab, args(dir)...); code != exitFailed || r != (round{}) {
		t.Errorf("with a broken file: code %d, round %+v, want no round", code, r)
	}
	expect(t, lab, clusterIP(10), podTwo)
}

func TestOnceWithoutNFT(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	t.Setenv("PATH", t.TempDir())
	c := start(t, lab, args(dir, "-once")...)
	if code := c.wait(t); code != exitFailed || !strings.Contains(c.text(), "the nft program is missing") {
		t.Errorf("code %d, log %s", code, c.text())
	}
}

func TestStopLeavesRulesAndCleanupRemovesThem(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	nft(t, lab, "add", "table", "ip", "foreign")
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	c := start(t, lab, args(dir)...)
	c.next(t)
	c.signal(t, syscall.SIGTERM)
	if code := c.wait(t); code != exitOK {
		t.Errorf("SIGTERM: code %d", code)
	}
	if got := dial(t, lab, "pod", clusterIP(10), 0); got != podOne {
		t.Errorf("after SIGTERM: %s", got)
	}
	if code := start(t, lab, "-cleanup").wait(t); code != exitOK {
		t.Errorf("-cleanup: code %d", code)
	}
	if got := strings.TrimSpace(nft(t, lab, "list", "tables")); got != "table ip foreign" {
		t.Errorf("after -cleanup: %q", got)
	}
	if code := start(t, lab, "-cleanup").wait(t); code != exitOK {
		t.Errorf("-cleanup again: code %d", code)
	}
}

func TestFollowFolder(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	c := start(t, lab, args(dir)...)
	expect(t, lab, clusterIP(10), podOne)

	write(t, dir, "web.yaml", service("web", 10, "", podTwo))
	expect(t, lab, clusterIP(10), podTwo)

	// What cannot be read keeps its last objects, and stops nobody else.
	write(t, dir, "web.yaml", service("web", 10, "", podThree)+"---\nkind: [")
	write(t, dir, "api.yaml", service("api", 11, "", podThree))
	expect(t, lab, clusterIP(11), podThree)
	if got := dial(t, lab, "pod", clusterIP(10), 0); got != podTwo {
		t.Errorf("with a broken file: %s, want %s", got, podTwo)
	}
	write(t, dir, "web.yaml", service("web", 10, "", podThree))
	expect(t, lab, clusterIP(10), podThree)

	write(t, dir, "web.yaml", service("web", 10, ""))
	expect(t, lab, clusterIP(10), netlab.Refused.String())
	if err := os.Remove(filepath.Join(dir, "api.yaml")); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return !strings.Contains(nft(t, lab, "list", "table", "ip", "vipkit"), "10.96.0.11") },
		func() string { return "the Service whose file was removed stays" })

	for r := c.next(t); len(c.rounds) > 0; r = c.next(t) {
		if r.failed != 0 {
			t.Errorf("round %+v", r)
		}
	}
}

func TestTableName(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	if code, _ := once(t, lab, args(dir, "-table", "other")...); code != exitOK {
		t.Fatalf("code %d", code)
	}
	if got := nft(t, lab, "list", "tables"); got != "table ip other\ntable ip6 other\n" {
		t.Errorf("tables %q", got)
	}
	if code := start(t, lab, "-cleanup", "-table", "other").wait(t); code != exitOK {
		t.Errorf("-cleanup: code %d", code)
	}
	if got := nft(t, lab, "list", "tables"); got != "" {
		t.Errorf("tables %q", got)
	}
}
