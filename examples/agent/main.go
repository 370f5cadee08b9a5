// Agent is a complete node agent: it follows Services and EndpointSlices, from a
// cluster or from a folder of manifests, and programs the node it runs on. It is
// what a kube-proxy does, built from the packages of this library; README.md says
// how to put it in kube-proxy's place.
//
//	agent -node-name a -source kubeconfig
//	agent -node-name a -source dir=/etc/services -once
//	agent -cleanup
//
// It is a module of its own, since client-go and Prometheus do not belong into
// the library's.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"k8s.io/klog/v2"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// A second signal ends the program at once.
	context.AfterFunc(ctx, stop)
	code := run(ctx, os.Args[1:], streams{os.Stdout, os.Stderr})
	stop()
	os.Exit(code)
}

// streams are where the program writes: one line per round on out, all else on err.
type streams struct {
	out, err io.Writer
}

// run is the program without its process. It returns when ctx is done, which is no
// error: the rules stay.
func run(ctx context.Context, args []string, std streams) (code int) {
	opts, err := parseFlags(args, std.err)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		_, _ = fmt.Fprintf(std.err, "agent: %v\nagent -h tells of all flags.\n", err)
		return exitUsage
	}
	logger := slog.New(slog.NewTextHandler(std.err, nil))
	klog.SetSlogLogger(logger) // client-go's
	if err := act(ctx, opts, std.out, logger); err != nil {
		logger.Error("agent ends", "error", oneLine(err))
		return exitFailed
	}
	return exitOK
}

// act does what the flags ask for.
func act(ctx context.Context, opts options, out io.Writer, logger *slog.Logger) error {
	a, err := newAgent(opts, out, logger)
	if err != nil {
		return err
	}
	defer a.close()
	switch {
	case opts.cleanup:
		err := a.backend.Cleanup(ctx)
		if err == nil {
			logger.Info("cleaned up", "backend", opts.backend)
		}
		return err
	case opts.initOnly:
		return a.initOnly(ctx)
	case opts.once:
		return a.once(ctx)
	default:
		return a.run(ctx)
	}
}
