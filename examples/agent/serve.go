package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/vipkit/vipkit/healthcheck"
)

const (
	// retryListen is how long a port that is taken is waited for: kube-proxy's.
	retryListen = 5 * time.Second

	// The limits of slow clients.
	readHeaderTimeout = 5 * time.Second
	writeTimeout      = 30 * time.Second
)

// startServers starts what the flags ask for. One address may serve both.
func (a *agent) startServers(jobs *jobs) {
	health, metrics := a.opts.healthzAddress, a.opts.metricsAddress
	if health != "" && health != metrics {
		jobs.start(func(ctx context.Context) error {
			return a.health.Serve(ctx, healthcheck.ServeOptions{Address: health, Failed: a.cannotServe(health)})
		})
	}
	if metrics != "" {
		jobs.start(func(ctx context.Context) error { return a.serveMetrics(ctx, metrics) })
	}
}

func (a *agent) cannotServe(address string) func(error) {
	return func(err error) { a.logger.Error("cannot serve", "address", address, "error", err) }
}

// serveMetrics serves until ctx is done, and tries again when it cannot.
func (a *agent) serveMetrics(ctx context.Context, address string) error {
	for ctx.Err() == nil {
		if err := a.serveOnce(ctx, address); err != nil {
			a.cannotServe(address)(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryListen):
		}
	}
	return nil
}

func (a *agent) serveOnce(ctx context.Context, address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return err
	}
	server := &http.Server{Handler: a.metricsMux(), ReadHeaderTimeout: readHeaderTimeout, WriteTimeout: writeTimeout}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// metricsMux has the paths that kube-proxy has on its metrics port, and /livez.
func (a *agent) metricsMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/metrics", a.metrics.handler())
	mux.Handle(healthcheck.PathHealthz, a.health.Healthz())
	mux.Handle(healthcheck.PathLivez, a.health.Livez())
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(a.plane.name))
	})
	return mux
}
