package iptables

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vipkit/vipkit/backends/internal/process"
)

// errNothingWritten is the error of an iptables-restore that says it has written and has not.
var errNothingWritten = errors.New("iptables-restore ended without an error and has written nothing")

// maxSaved is how much of what iptables-save says is read: some millions of rules.
const maxSaved = 1 << 30

// savePatience is how many times as long iptables-save may take as a program that is given little.
const savePatience = 4

// A runner runs the iptables programs, in the network namespace of the calling thread.
type runner interface {
	// save returns what iptables-save says of a table.
	save(ctx context.Context, f *family, t table) (string, error)

	// restore gives text to iptables-restore. If try is true, it only looks whether the
	// programs understand it.
	restore(ctx context.Context, f *family, text string, try bool) error

	// version returns what "iptables --version" prints.
	version(ctx context.Context, f *family) (string, error)
}

// programs runs the programs of one variant.
type programs struct {
	variant Variant
	wait    time.Duration // for the lock
	timeout time.Duration
}

func (p programs) save(ctx context.Context, f *family, t table) (string, error) {
	return p.run(ctx, process.Command{Timeout: savePatience * p.timeout, Output: maxSaved}, f.command+"-save", "-t", t.String())
}

func (p programs) restore(ctx context.Context, f *family, text string, try bool) error {
	args := []string{"-w", strconv.Itoa(int(p.wait / time.Second)), "--noflush"}
	if try {
		args = append(args, "--test")
	}
	c := process.Command{Input: []byte(text), Timeout: p.timeout + p.wait}
	if !try {
		c.Grace = process.Grace // a killed program leaves open whether it committed
	}
	_, err := p.run(ctx, c, f.command+"-restore", args...)
	return err
}

func (p programs) version(ctx context.Context, f *family) (string, error) {
	out, err := p.run(ctx, process.Command{Timeout: p.timeout}, f.command, "--version")
	return strings.TrimSpace(out), err
}

// run runs one program. Both variants are one file each, which takes the program's name as
// its first argument.
func (p programs) run(ctx context.Context, c process.Command, name string, args ...string) (string, error) {
	file := name
	if p.variant != SystemVariant {
		file = "xtables-" + string(p.variant) + "-multi"
		args = append([]string{name}, args...)
	}
	c.Path, c.Args = find(file), args
	out, err := c.Run(ctx)
	var e *process.Error
	if errors.As(err, &e) {
		said := explain(string(e.Said), string(c.Input))
		e.Path, e.Said = name, nil // explain finds the line that it means
		return "", fmt.Errorf("%w%s", e, said)
	}
	return out, err
}

// find looks for a program also where a plain user's PATH does not.
func find(file string) string {
	if _, err := exec.LookPath(file); err == nil {
		return file
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, file)); err == nil {
			return path
		}
	}
	return file
}

// maxMessage is how much of what a program complains about is told.
const maxMessage = 500

// explain returns a program's complaint, and the line of the input that it names.
func explain(stderr, input string) string {
	var kept []string
	for line := range strings.Lines(stderr) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			kept = append(kept, line)
		}
	}
	if len(kept) == 0 {
		return ""
	}
	text := strings.Join(kept, "; ")
	text = ": " + process.Printable(text[:min(len(text), maxMessage)])
	_, after, found := strings.Cut(stderr, "line ")
	if !found {
		return text
	}
	digits := after[:len(after)-len(strings.TrimLeft(after, "0123456789"))]
	lines := strings.Split(input, "\n")
	if n, err := strconv.Atoi(digits); err == nil && n > 0 && n <= len(lines) {
		text += ": " + lines[n-1]
	}
	return text
}
