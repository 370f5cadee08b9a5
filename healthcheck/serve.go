package healthcheck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// readHeaderTimeout is how long a client may take to ask. Load balancers ask at
// once; whoever does not would keep a connection for ever.
const readHeaderTimeout = 10 * time.Second

// idleTimeout is longer than load balancers wait between two checks.
const idleTimeout = 2 * time.Minute

// A ListenFunc opens a listening socket, as [net.Listen] does. The network is "tcp",
// "tcp4" or "tcp6"; an IPv6 socket for "tcp6" must leave the port to IPv4.
type ListenFunc func(network, address string) (net.Listener, error)

// ServeOptions configure [Health.Serve].
type ServeOptions struct {
	// Address is where to listen, for instance "0.0.0.0:10256", which is kube-proxy's.
	// If empty, Serve does nothing: health checks are switched off.
	Address string

	// HardFail makes Serve return if it cannot listen. If false, it tries again
	// every RetryInterval.
	HardFail bool

	// RetryInterval is the time between two attempts. Zero means DefaultRetryInterval.
	RetryInterval time.Duration

	// Listen opens the socket. If nil, [net.Listen] does.
	Listen ListenFunc

	// Failed is called with each error that Serve does not return. It may be nil.
	Failed func(error)
}

// Serve answers /healthz and /livez until ctx is done, and returns when the socket is
// closed. That ctx is done is no error. If the address cannot be
// listened on, or the socket breaks, it tries again, unless HardFail is set.
func (h *Health) Serve(ctx context.Context, opts ServeOptions) error {
	if opts.Address == "" {
		return nil
	}
	if opts.Listen == nil {
		opts.Listen = net.Listen
	}
	for {
		err := h.serveOnce(ctx, opts)
		if ctx.Err() != nil {
			return nil
		}
		err = fmt.Errorf("healthcheck: serve %s: %w", opts.Address, err)
		if opts.HardFail {
			return err
		}
		if opts.Failed != nil {
			opts.Failed(err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(cmp.Or(opts.RetryInterval, DefaultRetryInterval)):
		}
	}
}

// serveOnce serves until the socket breaks or ctx is done.
func (h *Health) serveOnce(ctx context.Context, opts ServeOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ln, err := opts.Listen("tcp", opts.Address)
	if err != nil {
		return err
	}
	srv := newServer(h.Handler())
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	err = srv.Serve(ln)
	return errors.Join(err, ignoreClosed(ln.Close()))
}

// newServer returns a server that logs nothing.
func newServer(handler http.Handler) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
