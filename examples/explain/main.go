// Explain reads Kubernetes objects from files and tells what a Service proxy makes
// of them on one node: which ports, which frontends, who is forwarded where, and
// what happens to a given packet. It needs no cluster and no rights.
//
//	go run ./examples/explain -f examples/quickstart/manifests -node node-1 \
//		-packet 10.244.1.5,10.96.0.10:80,tcp
//
// The answer goes to standard output, as text or JSON; what was skipped in the
// input goes to standard error. Input that is only partly usable is no failure: the
// answer lists the problems. The exit status is 2 for wrong usage and for input
// that cannot be read at all, 1 for anything else that went wrong.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/vipkit/vipkit/examples/internal/manifests"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// The exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2 // also unusable input
)

func run(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	opts, err := parseFlags(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return exitUsage
	}
	objects, notes, err := manifests.Load(opts.files, stdin)
	if err != nil {
		tell(stderr, err)
		return exitUsage
	}
	for _, note := range notes {
		tell(stderr, note)
	}
	if err := answerTo(opts, objects, stdout); err != nil {
		tell(stderr, err)
		return exitFailed
	}
	return exitOK
}

// tell says what on standard error. That it cannot be told has nobody to be told to.
func tell(stderr io.Writer, what any) {
	_, _ = fmt.Fprintln(stderr, "explain:", what)
}

func answerTo(opts *options, objects *manifests.Objects, stdout io.Writer) error {
	p, problems := buildPlan(opts.node, objects)
	a := newAnswer(p, opts.packets, problems)
	if opts.rules != "" {
		text, err := renderRules(opts.rules, p)
		if err != nil {
			return err
		}
		a.Rules = text
	}
	if opts.output == outputJSON {
		return writeJSON(stdout, a)
	}
	return writeText(stdout, a)
}
