package nftables

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inUserNamespace says that the process is the one that TestInUserNamespace starts.
const inUserNamespace = "VIPKIT_TEST_USERNS"

// TestInUserNamespace syncs with the rights of a user namespace only. There nft cannot make
// its socket's buffer large, so the kernel refuses a transaction of more than some hundred
// kilobytes as a whole: it has to be cut.
func TestInUserNamespace(t *testing.T) {
	if os.Getenv(inUserNamespace) != "" {
		inNetNS(t)
		w, b := newWorld(t, nodeConfig()), newBackend(t, Options{})
		if s := w.sync(b, many(400)); s.Failed > 0 || s.Changes != 400 {
			t.Errorf("stats %+v, want 400 changes", s)
		}
		w.wantSettled(Options{})
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestInUserNamespace$")
	cmd.Env = append(os.Environ(), inUserNamespace+"=1")
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	groups := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET, UidMappings: ids, GidMappings: groups}
	out, err := cmd.CombinedOutput()
	if errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		skipOrFail(t, errors.Join(errors.ErrUnsupported, err)) // user namespaces are switched off
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
