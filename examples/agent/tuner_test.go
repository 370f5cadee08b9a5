package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/backends/conntrack"
)

const sysctls = "proc/sys/net/netfilter/nf_conntrack_"

// timeouts returns what the node keeps TCP connections for, in seconds: established, in CLOSE_WAIT.
func timeouts(t *testing.T, lab *netlab.Lab) string {
	t.Helper()
	return strings.Join(strings.Fields(onNodeRun(t, lab, "cat", "/"+sysctls+"tcp_timeout_established", "/"+sysctls+"tcp_timeout_close_wait")), " ")
}

func TestConntrackSysctls(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	const kernels, kubeProxys = "432000 60", "86400 3600"
	want := func(t *testing.T, what, want string) {
		t.Helper()
		if got := timeouts(t, lab); got != want {
			t.Errorf("%s: the timeouts are %s, want %s", what, got, want)
		}
	}
	if code, _ := once(t, lab, args(dir, "-conntrack-sysctls=false")...); code != exitOK {
		t.Fatalf("code %d", code)
	}
	want(t, "off", kernels)
	readOnly := func(t *testing.T, warns bool) {
		t.Helper()
		c := startCommand(t, lab, nil, append([]string{
			"unshare", "--mount", "--propagation", "private", "sh", "-c", `mount --bind /proc/sys /proc/sys && mount -o remount,ro,bind /proc/sys && exec "$@"`, "sh", os.Args[0],
		}, args(dir, "-once")...)...)
		if code := c.wait(t); code != exitOK || strings.Contains(c.text(), "-init-only") != warns {
			t.Errorf("code %d, want success and a warning: %t, in\n%s", code, warns, c.text())
		}
	}
	t.Run("fault F19 a read-only /proc/sys is told and no error", func(t *testing.T) {
		readOnly(t, true)
		want(t, "read-only", kernels)
	})
	t.Run("fault F19 -init-only sets it before", func(t *testing.T) {
		if code := start(t, lab, "-init-only", "-conntrack-max-per-core", "0").wait(t); code != exitOK {
			t.Errorf("-init-only: code %d", code)
		}
		want(t, "-init-only", kubeProxys)
		readOnly(t, false)
	})
	if code, _ := once(t, lab, args(dir, "-conntrack-tcp-timeout-close-wait", "61s", "-conntrack-tcp-timeout-established", "0")...); code != exitOK {
		t.Fatalf("code %d", code)
	}
	want(t, "other values", "86400 61")
	if code, _ := once(t, lab, args(dir)...); code != exitOK {
		t.Fatalf("code %d", code)
	}
	want(t, "fault F19 by default", kubeProxys)
}

// TestTuner has a file system of its own, on which the table may be resized.
func TestTuner(t *testing.T) {
	var log bytes.Buffer
	tuner := newTuner(tunerFlags{on: true, settings: conntrack.Settings{MaxPerCore: 1000, MinMax: 4000}}, slog.New(slog.NewTextHandler(&log, nil)))
	tuner.root = t.TempDir()
	file := func(name, value string) string {
		name = filepath.Join(tuner.root, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	tuner.roundEnded(false) // connection tracking is not loaded yet
	if log.Len() > 0 || tuner.done {
		t.Errorf("told %s", &log)
	}
	size := file(sysctls+"max", "10")
	file("sys/module/nf_conntrack/parameters/hashsize", "100000")
	file("sys/devices/system/cpu/online", "0-2")
	tuner.roundEnded(true)
	if got, err := os.ReadFile(size); string(got) != "4000" || !tuner.done {
		t.Errorf("fault F19 the table has %q, %v, want 4000", got, err)
	}
	file(sysctls+"max", "9000") // an administrator's, while the agent runs
	tuner.roundEnded(true)
	if got, err := os.ReadFile(size); string(got) != "9000" {
		t.Errorf("fault F19 the table has %q, %v, want 9000", got, err)
	}
}
