package netlab

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// A Namespace is a network namespace that only this program knows.
type Namespace struct {
	file *os.File
}

// NewNamespace returns a new, empty network namespace. The error wraps
// [errors.ErrUnsupported] if the program lacks the right to make one.
func NewNamespace() (*Namespace, error) {
	var ns *Namespace
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return unsupported(err)
		}
		file, err := os.Open("/proc/thread-self/ns/net")
		ns = &Namespace{file: file}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("netlab: make network namespace: %w", err)
	}
	return ns, nil
}

// Do runs fn in the namespace, on the calling goroutine. Processes that fn starts
// are in the namespace too; goroutines that it starts are not. Sockets stay in the
// namespace in which they were made, whoever uses them. Do is safe for concurrent use.
func (n *Namespace) Do(fn func() error) (err error) {
	runtime.LockOSThread()
	back, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("netlab: open network namespace: %w", err)
	}
	defer back.Close() //nolint:errcheck // a descriptor that was only read

	if err = enter(n.file); err != nil {
		runtime.UnlockOSThread()
		return err
	}
	// In a defer, since a test that fails leaves fn by runtime.Goexit.
	defer func() {
		if e := enter(back); e != nil {
			// The thread stays locked to the goroutine, and so ends with it.
			err = errors.Join(err, e)
			return
		}
		runtime.UnlockOSThread()
	}()
	return fn()
}

// File returns the namespace's descriptor, which belongs to the Namespace.
func (n *Namespace) File() *os.File { return n.file }

// Close gives the namespace up. The kernel removes it, with all that is in it, when
// no socket and no process uses it any more.
func (n *Namespace) Close() error { return n.file.Close() }

func enter(ns *os.File) error {
	if err := unix.Setns(int(ns.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("netlab: enter network namespace: %w", err)
	}
	return nil
}

// onThread runs fn on a thread of its own that ends with it, so that fn may leave
// it in any state.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- fn()
	}()
	return <-done
}

// unsupported marks the errors of a system call that mean: not on this system, or
// not for this user. A container's /proc/sys is often read-only.
func unsupported(err error) error {
	for _, e := range []unix.Errno{unix.EPERM, unix.EACCES, unix.EROFS, unix.ENOSYS, unix.EPROTONOSUPPORT, unix.EAFNOSUPPORT, unix.EOPNOTSUPP} {
		if errors.Is(err, e) {
			return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		}
	}
	return err
}
