package iptables

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/vipkit/vipkit/backends/internal/nftgen"
	"github.com/vipkit/vipkit/backends/internal/process"
)

// procKernel reads and writes files under /proc, in the network namespace of the calling
// thread.
type procKernel struct{}

const sysctls = "/proc/sys/"

func (procKernel) generation() (uint32, error) { return nftgen.Read() }

func (procKernel) sysctl(name string) (string, error) {
	text, err := os.ReadFile(sysctls + name)
	return strings.TrimSpace(string(text)), err
}

func (procKernel) setSysctl(name, value string) error {
	return os.WriteFile(sysctls+name, []byte(value), 0o644)
}

func (procKernel) legacyTables(f *family) ([]string, error) {
	name := "/proc/thread-self/net/ip_tables_names"
	if f.bits == 128 {
		name = "/proc/thread-self/net/ip6_tables_names"
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return strings.Fields(string(text)), err
}

// errNothingWritten is the error of an iptables-restore that says it has written and has not.
var errNothingWritten = errors.New("iptables-restore ended without an error and has written nothing")

// maxSaved is how much of what iptables-save says is read: some millions of rules.
const maxSaved = 1 << 30

// savePatience is how many times as long iptables-save may take as a program that is given little.
const savePatience = 4

// A refusal is the error of an iptables-restore that ran to its end and says which line it, or the kernel, does not take. What was
// committed before that line is in place.
type refusal struct {
	line int
	err  error
}

func (r *refusal) Error() string { return r.err.Error() }

func (r *refusal) Unwrap() error { return r.err }

// refusedLine returns the line of a refusal.
func refusedLine(err error) (line int, ok bool) {
	var r *refusal
	if !errors.As(err, &r) {
		return 0, false
	}
	return r.line, true
}

// A runner runs the iptables programs, in the network namespace of the calling thread.
type runner interface {
	// save returns what iptables-save says of a table.
	save(ctx context.Context, f *family, t table) (string, error)

	// restore gives text to iptables-restore. If try is true, it only looks whether the
	// programs understand it. Its error is a refusal if the text is to blame.
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
	if !errors.As(err, &e) {
		return out, err
	}
	stderr := string(e.Said)
	e.Path, e.Said = name, nil // explain finds the line that it means
	line := lineOf(stderr)
	err = fmt.Errorf("%w%s", e, explain(stderr, string(c.Input), line))
	if e.Refused && line > 0 && !isPassing(stderr) {
		err = &refusal{line, err}
	}
	return "", err
}

// isPassing reports whether a complaint is about the state of the machine or the rights of the process, and not about
// what was to be restored. The exit status does not tell: the nft variant's is 4 for whatever the kernel refuses.
func isPassing(stderr string) bool {
	for _, text := range []string{
		"temporarily unavailable", "annot allocate memory", "No buffer space", "Interrupted", "xtables lock", "ermission denied", "not permitted",
	} {
		if strings.Contains(stderr, text) {
			return true
		}
	}
	return false
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

// explain returns a program's complaint, and the line of the input that it names, if that is not 0.
func explain(stderr, input string, line int) string {
	var kept []string
	for text := range strings.Lines(stderr) {
		if text = strings.TrimSpace(text); text != "" && !strings.HasPrefix(text, "#") {
			kept = append(kept, text)
		}
	}
	if len(kept) == 0 {
		return ""
	}
	text := strings.Join(kept, "; ")
	text = ": " + process.Printable(text[:min(len(text), maxMessage)])
	if lines := strings.Split(input, "\n"); line > 0 && line <= len(lines) {
		text += ": " + lines[line-1]
	}
	return text
}

// lineOf returns the line of the input that a complaint names, as in "line 3 failed" or "at line: 3"; 0 if it names none.
func lineOf(stderr string) int {
	_, after, _ := strings.Cut(stderr, "line")
	after = strings.TrimLeft(after, ": ")
	digits := after[:len(after)-len(strings.TrimLeft(after, "0123456789"))]
	n, err := strconv.Atoi(digits)
	if err != nil {
		return 0
	}
	return n
}

const (
	routeLocalnet = "net/ipv4/conf/all/route_localnet"
	beLiberal     = "net/netfilter/nf_conntrack_tcp_be_liberal"
)

// readSysctls finds out what depends on the node's sysctls, and reports whether route_localnet is set by us. That it
// was, by whatever instance, is told by the chain that guards loopback.
func (d *dialect) readSysctls(guarded bool) (ours bool) {
	// This one exists once connection tracking is loaded; until then the default holds.
	liberal, errLiberal := d.kernel.sysctl(beLiberal)
	var local string
	var errLocal error
	if guarded || d.opts.LocalhostNodePorts {
		if local, errLocal = d.kernel.sysctl(routeLocalnet); errLocal != nil {
			errLocal = fmt.Errorf("read route_localnet: %w", errLocal)
		}
	}
	if !d.checking {
		d.dropInvalid = d.opts.DropInvalid && (errLiberal != nil || liberal == "0")
		d.guardable, d.localnetErr = guarded || local == "0", errLocal
	}
	return guarded && local == "1"
}

// setLoopback comes after the rules that guard loopback are there, or before they go.
func (d *dialect) setLoopback(value string) error {
	if err := d.kernel.setSysctl(routeLocalnet, value); err != nil {
		return fmt.Errorf("set route_localnet: %w", err)
	}
	return nil
}
