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

// The limits of slow clients: how long the question and the answer may take. Probes ask
// and read at once; others would keep a connection for ever.
const (
	readTimeout  = 5 * time.Second
	writeTimeout = 30 * time.Second // metrics of a large node over a slow link

	maxHeaderBytes = 16 << 10
)

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

	// Handler answers. If nil, [Health.Handler] does; set it to serve more than health on the
	// address. It has to answer within 30 s of the question.
	Handler http.Handler

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
//
// Clients cannot use it up: each connection is for one question, which has 5 s, and its
// answer. At most 256 are open, and 64 of one client (an IPv4 address or an IPv6 /64);
// beyond that the oldest one is closed.
func (h *Health) Serve(ctx context.Context, opts ServeOptions) error {
	if opts.Address == "" {
		return nil
	}
	if opts.Listen == nil {
		opts.Listen = net.Listen
	}
	if opts.Handler == nil {
		opts.Handler = h.Handler()
	}
	for {
		err := serveOnce(ctx, opts)
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
func serveOnce(ctx context.Context, opts ServeOptions) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ln, err := opts.Listen("tcp", opts.Address)
	if err != nil {
		return err
	}
	srv := newServer(opts.Handler)
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	err = srv.Serve(new(limiter).listen(ln))
	return errors.Join(err, ignoreClosed(ln.Close()))
}

// newServer returns a server that logs nothing, and closes a connection after the answer. It
// says so in the answer: a probe that comes every few seconds cannot meet a
// connection that is just being closed for idleness, which it would take for a dead node.
func newServer(handler http.Handler) *http.Server {
	srv := &http.Server{
		Handler:        handler,
		ReadTimeout:    readTimeout,
		WriteTimeout:   writeTimeout,
		MaxHeaderBytes: maxHeaderBytes,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	srv.SetKeepAlivesEnabled(false)
	return srv
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
