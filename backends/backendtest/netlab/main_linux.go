package netlab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// apartEnv tells a program that it has its namespace.
const apartEnv = "VIPKIT_NETLAB_APART"

// Main is for TestMain of a package whose tests program the kernel. It runs the tests in a
// second process that has a network namespace of its own, so that one that forgets to make a
// namespace, or loses it in a subtest, changes nothing of the host's; then it fails and
// tells what that test left. Without the right to make a namespace the tests run as they
// are. What is left is seen with nft, if there is one. Main does not return.
func Main(tests interface{ Run() int }) {
	if os.Getenv(apartEnv) != "" {
		os.Exit(runTidy(tests))
	}
	err := runApart()
	var exit *exec.ExitError
	switch {
	case err == nil:
		os.Exit(0)
	case errors.As(err, &exit) && exit.Exited():
		os.Exit(exit.ExitCode())
	case errors.Is(err, unix.EPERM):
		os.Exit(tests.Run())
	default:
		fmt.Fprintln(os.Stderr, "netlab: run tests in a network namespace:", err)
		os.Exit(1)
	}
}

// runApart runs this program again, in a new network namespace.
func runApart() error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(program, os.Args[1:]...)
	cmd.Env = append(os.Environ(), apartEnv+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// The signal is sent when the thread ends, so the thread has to stay.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	return cmd.Run()
}

// listTime is how long nft may take to list an empty namespace.
const listTime = 30 * time.Second

// runTidy runs tests and fails if the process's own namespace has rules then.
func runTidy(tests interface{ Run() int }) int {
	if err := loopbackUp(); err != nil {
		fmt.Fprintln(os.Stderr, "netlab: prepare the namespace of the tests:", err)
		return 1
	}
	code := tests.Run()
	ctx, cancel := context.WithTimeout(context.Background(), listTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, "nft", "list", "tables").Output()
	if left := strings.TrimSpace(string(out)); err == nil && left != "" {
		fmt.Fprintf(os.Stderr, "netlab: a test worked outside its network namespace and left:\n%s\n", left)
		return max(code, 1)
	}
	return code
}

// loopbackUp makes a new namespace what tests may expect: one in which a process can speak to itself.
func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}
