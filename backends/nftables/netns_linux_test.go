package nftables

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// inNetNS moves the test into a network namespace of its own. The thread is never given
// back, so the namespace ends with it.
func inNetNS(tb testing.TB) {
	tb.Helper()
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNET)
	if err == nil {
		_, err = exec.LookPath("nft")
	}
	if err != nil {
		skipOrFail(tb, err)
	}
}

// skipOrFail ends a test for which there is no network namespace or no nft.
func skipOrFail(tb testing.TB, err error) {
	tb.Helper()
	lacks := errors.Is(err, unix.EPERM) || errors.Is(err, errors.ErrUnsupported) || errors.Is(err, exec.ErrNotFound)
	if !lacks || os.Getenv("VIPKIT_REQUIRE_KERNEL") != "" {
		tb.Fatalf("new network namespace: %v", err)
	}
	tb.Skipf("new network namespace: %v", err)
}

// nft runs nft in the namespace of the test and returns what it says.
func nft(tb testing.TB, args ...string) string {
	tb.Helper()
	out, err := exec.Command("nft", args...).CombinedOutput()
	if err != nil {
		tb.Fatalf("nft %v: %v\n%s", args, err, out)
	}
	return string(out)
}
