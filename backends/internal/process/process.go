// Package process runs other programs so that none of them can hold up a backend: each has a
// deadline, is killed after it together with its children, and only a bounded part of
// what it says is read.
package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"time"
)

const (
	// DefaultTimeout is the deadline of a program that is given little. Commits of others to
	// netfilter, for which it may have to wait, take some seconds.
	DefaultTimeout = 30 * time.Second

	// Grace is how long a program that writes may go on once the caller's context is
	// done: one that is killed leaves open whether it wrote.
	Grace = 5 * time.Second

	// perMiB is added to the deadline for each MiB of input.
	perMiB = 10 * time.Second

	// smallOutput is how much standard output is read unless the Command says otherwise.
	smallOutput = 64 << 10

	// childrenDelay is how long the output may stay open after a program has ended or was killed:
	// a child can have inherited it.
	childrenDelay = time.Second
)

// ErrKilled is wrapped by the error of a program that had to be killed. What it did is not known.
var ErrKilled = errors.New("killed")

// errTooLong is the error of a program that says more than it may.
var errTooLong = errors.New("more output than is read")

// A Command is one run of a program.
type Command struct {
	Path  string // a file, or a name to look for in PATH
	Args  []string
	Input []byte

	// Timeout is how long the program may run. 10 s are added for each MiB of Input.
	Timeout time.Duration

	// Grace is how long it may go on after the context is done, 0 to kill it at once.
	Grace time.Duration

	// Output is how many bytes of standard output are read; more is an error. 0 means 64 KiB.
	Output int
}

// An Error is how a program failed.
type Error struct {
	Path string

	// Said is the beginning of what it wrote to standard error.
	Said []byte

	// Refused says that the program ran to its end and returned a status other than 0. Otherwise it was
	// not started, was killed, or its output is incomplete.
	Refused bool

	Err error
}

// Error returns the reason and the first lines of what the program said.
func (e *Error) Error() string {
	text := fmt.Sprintf("run %s: %v", e.Path, e.Err)
	if said := e.FirstLines(); said != "" {
		text += ": " + said
	}
	return text
}

// Unwrap returns e.Err.
func (e *Error) Unwrap() error { return e.Err }

// Broke reports whether err is that of a program that did not run to its end, so that nothing is
// known of what it did, and nothing was said about its input.
func Broke(err error) bool {
	var e *Error
	return errors.As(err, &e) && !e.Refused
}

// Missing reports whether err says that a program does not exist. All other reasons why it
// could not be started may pass.
func Missing(err error) bool {
	var e *Error
	return errors.As(err, &e) && !e.Refused && (errors.Is(e.Err, exec.ErrNotFound) || errors.Is(e.Err, fs.ErrNotExist))
}

// Run runs the program in the network namespace of the calling thread and returns what it writes to
// standard output. Any error of the program is an [Error]. The locale of the program is "C".
func (c Command) Run(ctx context.Context) (string, error) {
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("run %s: %w", c.Path, err)
	}
	running, cancel := c.running(ctx)
	defer cancel()
	stdout, stderr := &limited{left: smallOutput, strict: true}, &limited{left: maxSaid}
	if c.Output > 0 {
		stdout.left = c.Output
	}
	cmd := exec.CommandContext(running, c.Path, c.Args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(c.Input), stdout, stderr
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	cmd.WaitDelay = childrenDelay
	ownGroup(cmd)
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) {
		killGroup(cmd)
	}
	if err == nil {
		return stdout.buf.String(), nil
	}
	e := &Error{Path: c.Path, Said: stderr.buf.Bytes(), Err: err}
	var exit *exec.ExitError
	switch {
	case stdout.full:
		e.Err = errTooLong
	case running.Err() != nil:
		e.Err = context.Cause(running)
	case errors.As(err, &exit):
		e.Refused = exit.Exited()
	}
	return "", e
}

// running returns the context that kills the program when it is done.
func (c Command) running(ctx context.Context) (running context.Context, cancel func()) {
	timeout := c.Timeout + time.Duration(len(c.Input)>>20)*perMiB
	late := fmt.Errorf("%w after %s", ErrKilled, timeout)
	alive, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	running, stop := context.WithTimeoutCause(alive, timeout, late)
	ignore := context.AfterFunc(ctx, func() {
		grace := time.NewTimer(min(c.Grace, timeout))
		defer grace.Stop()
		select {
		case <-grace.C:
			kill(fmt.Errorf("%w: %w", ErrKilled, ctx.Err()))
		case <-running.Done():
		}
	})
	return running, func() {
		ignore()
		stop()
		kill(nil)
	}
}

// A limited keeps the beginning of what is written to it.
type limited struct {
	buf    bytes.Buffer // no embedded one, which could be read into past Write
	left   int
	strict bool // more is an error, which ends the program
	full   bool
}

// Write returns no error for what it does not keep unless it is strict.
func (l *limited) Write(p []byte) (int, error) {
	kept := p[:min(len(p), l.left)]
	l.left -= len(kept)
	_, _ = l.buf.Write(kept) // never fails
	if len(kept) < len(p) && l.strict {
		l.full = true
		return len(kept), errTooLong
	}
	return len(p), nil
}
