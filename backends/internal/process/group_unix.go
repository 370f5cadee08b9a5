//go:build unix

package process

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup gives the program a process group, so that its children can be killed with it, and so that
// a signal from the terminal does not interrupt it in the middle of a commit.
func ownGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error {
		killGroup(cmd)
		return os.ErrProcessDone // leave it to Wait to say how it ended
	}
}

func killGroup(cmd *exec.Cmd) {
	if pid := cmd.Process.Pid; pid > 1 {
		_ = syscall.Kill(-pid, syscall.SIGKILL)
	}
}
