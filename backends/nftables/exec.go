package nftables

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"strings"
)

// errNotFound is wrapped by the error of a statement whose object does not exist.
var errNotFound = errors.New("no such object")

// nftProgram runs the nft program, in the network namespace of the calling thread.
type nftProgram struct {
	path string
}

func (p nftProgram) run(ctx context.Context, text []byte) error {
	_, err := p.exec(context.WithoutCancel(ctx), text, "-f", "-")
	return err
}

func (p nftProgram) check(ctx context.Context, text []byte) error {
	_, err := p.exec(ctx, text, "-c", "-f", "-")
	return err
}

func (p nftProgram) version(ctx context.Context) (string, error) {
	return p.exec(ctx, nil, "--version")
}

func (p nftProgram) exec(ctx context.Context, stdin []byte, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, p.path, args...)
	cmd.Stdin = bytes.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	if err == nil {
		return stdout.String(), nil
	}
	said := firstLines(stderr.String())
	if strings.Contains(said, "No such file or directory") {
		err = errors.Join(errNotFound, err)
	}
	if strings.Contains(said, "Operation not permitted") {
		err = errors.Join(fs.ErrPermission, err)
	}
	if said != "" {
		err = fmt.Errorf("%w: %s", err, said)
	}
	return "", fmt.Errorf("run %s: %w", p.path, err)
}

// firstLines returns the first complaint of nft, with the statement and the place in it:
// one mistake can make thousands.
func firstLines(s string) string {
	const most = 3
	lines := strings.SplitN(strings.TrimSpace(s), "\n", most+1)
	return strings.Join(lines[:min(most, len(lines))], "; ")
}
