package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"

	"github.com/vipkit/vipkit/hack/upstream/shadow"
)

// A suite is a package of upstream whose tests run.
type suite struct {
	name string
	path string // of the package, below the module
	run  string // which tests; empty: all
}

func suites() []suite {
	const core = "pkg/registry/core/service/"
	return []suite{
		{name: "proxy", path: "pkg/proxy"},
		{name: "util", path: "pkg/proxy/util"},
		{name: "nftables", path: "pkg/proxy/nftables"},
		{name: "iptables", path: "pkg/proxy/iptables"},
		{name: "ipvs", path: "pkg/proxy/ipvs"},
		{name: "conntrack", path: "pkg/proxy/conntrack"},
		{name: "healthcheck", path: "pkg/proxy/healthcheck"},
		{name: "storage", path: core + "storage"},
		{name: "ipallocator", path: core + "ipallocator"},
		{name: "portallocator", path: core + "portallocator"},
		{name: "repair", path: core + "ipallocator/controller"},
		{name: "servicecidrs", path: "pkg/controller/servicecidrs"},
	}
}

type testOptions struct {
	log     string
	seed    int64
	percent int
}

// suiteBound is how long the tests of a package may take.
const suiteBound = 30 * time.Minute

// outputBound is how much of the end of a failed run is shown, in bytes.
const outputBound = 8 << 10

// test runs the tests of the suite with the hooks recording into the log.
func (s suite) test(ctx context.Context, t *tree, o testOptions) error {
	if err := os.Remove(o.log); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	args := []string{
		"test", "-modfile=" + t.modfile, "-mod=readonly", "-trimpath", "-vet=off", "-count=1",
		"-timeout=" + suiteBound.String(),
	}
	if s.run != "" {
		args = append(args, "-run="+s.run)
	}
	cmd := exec.CommandContext(ctx, "go", append(args, upstreamModule+"/"+s.path)...)
	// The go command's tests are processes of their own, and end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.Env = append(os.Environ(),
		shadow.LogVariable+"="+o.log,
		shadow.SeedVariable+"="+strconv.FormatInt(o.seed, 10),
		shadow.PercentVariable+"="+strconv.Itoa(o.percent))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	out = bytes.TrimSpace(out)
	return fmt.Errorf("tests of %s: %w\n%s", s.path, err, out[max(0, len(out)-outputBound):])
}
