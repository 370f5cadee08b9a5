package iptables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

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
	wait    time.Duration
}

func (p programs) save(ctx context.Context, f *family, t table) (string, error) {
	return p.run(ctx, "", f.command+"-save", "-t", t.String())
}

func (p programs) restore(ctx context.Context, f *family, text string, try bool) error {
	args := []string{"-w", strconv.Itoa(int(p.wait / time.Second)), "--noflush"}
	if try {
		args = append(args, "--test")
	}
	// A killed program leaves open whether it committed.
	_, err := p.run(context.WithoutCancel(ctx), text, f.command+"-restore", args...)
	return err
}

func (p programs) version(ctx context.Context, f *family) (string, error) {
	out, err := p.run(ctx, "", f.command, "--version")
	return strings.TrimSpace(out), err
}

// run runs one program. Both variants are one file each, which takes the program's name as
// its first argument.
func (p programs) run(ctx context.Context, input, name string, args ...string) (string, error) {
	file := name
	if p.variant != SystemVariant {
		file = "xtables-" + string(p.variant) + "-multi"
		args = append([]string{name}, args...)
	}
	path, err := find(file)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Env = append(os.Environ(), "LC_ALL=C")
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w%s", name, err, explain(stderr.String(), input))
	}
	return stdout.String(), nil
}

// find looks for a program also where a plain user's PATH does not.
func find(file string) (string, error) {
	path, err := exec.LookPath(file)
	if err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin", "/usr/local/sbin"} {
		if path, e := exec.LookPath(filepath.Join(dir, file)); e == nil {
			return path, nil
		}
	}
	return "", err
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
	text = ": " + text[:min(len(text), maxMessage)]
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

// isMissing reports whether a program could not be found.
func isMissing(err error) bool {
	return errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist)
}
