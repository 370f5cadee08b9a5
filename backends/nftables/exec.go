package nftables

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/vipkit/vipkit/backends/internal/process"
)

// errNotFound is wrapped by the error of a statement whose object does not exist.
var errNotFound = errors.New("no such object")

// errNothingWritten is the error of an nft that says it has written and has not.
var errNothingWritten = errors.New("nft ended without an error and has written nothing")

// nftProgram runs the nft program, in the network namespace of the calling thread.
type nftProgram struct {
	path    string
	timeout time.Duration
}

func (p nftProgram) run(ctx context.Context, text []byte) error {
	_, err := p.exec(ctx, process.Command{Args: []string{"-f", "-"}, Input: text, Grace: process.Grace})
	return err
}

func (p nftProgram) check(ctx context.Context, text []byte) error {
	_, err := p.exec(ctx, process.Command{Args: []string{"-c", "-f", "-"}, Input: text})
	return err
}

func (p nftProgram) version(ctx context.Context) (string, error) {
	return p.exec(ctx, process.Command{Args: []string{"--version"}})
}

func (p nftProgram) exec(ctx context.Context, c process.Command) (string, error) {
	c.Path, c.Timeout = p.path, p.timeout
	out, err := c.Run(ctx)
	var refusal *process.Error
	if !errors.As(err, &refusal) || !refusal.Refused {
		return out, err
	}
	said := refusal.FirstLines()
	if strings.Contains(said, "No such file or directory") {
		err = fmt.Errorf("%w: %w", errNotFound, err)
	}
	if strings.Contains(said, "Operation not permitted") {
		err = fmt.Errorf("%w: %w", fs.ErrPermission, err)
	}
	return "", err
}

// A commitError is that of a transaction after which only reading tells what is in the kernel.
type commitError struct{ error }

// Unwrap returns the reason.
func (e commitError) Unwrap() error { return e.error }

func isUnknown(err error) bool {
	var unknown commitError
	return errors.As(err, &unknown)
}

// execute gives statements to the kernel by nft and looks whether it has got them. The error is a
// commitError unless the kernel has refused them and nobody has committed anything.
func (b *Backend) execute(ctx context.Context, text []byte) (before, after uint32, err error) {
	before, after, err = b.counted(func() error { return b.runner.run(ctx, text) })
	if err == nil && before == after && before != 0 {
		err = commitError{errNothingWritten}
	}
	return before, after, err
}

// counted commits something and returns the generations of nftables before and after, 0 where one
// could not be read. The error is a commitError where that of commit leaves open what is in the kernel.
func (b *Backend) counted(commit func() error) (before, after uint32, err error) {
	before = b.generation()
	err = commit()
	after = b.generation()
	if err != nil && (before != after || before == 0 || process.Broke(err)) {
		err = commitError{err} // somebody committed meanwhile, perhaps it was us
	}
	return before, after, err
}

// generation returns that of nftables, 0, which never is one, if it cannot be read.
func (b *Backend) generation() uint32 {
	n, err := b.kernel.generation()
	if err != nil {
		return 0
	}
	return n
}
