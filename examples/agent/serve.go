package main

import (
	"context"
	"net/http"

	"github.com/vipkit/vipkit/healthcheck"
)

// startServers starts what the flags ask for. One address may serve both. Serve bounds
// connections and slow clients, and tries again if an address cannot be listened on.
func (a *agent) startServers(jobs *jobs) {
	health, metrics := a.opts.healthzAddress, a.opts.metricsAddress
	if health != "" && health != metrics {
		jobs.start(func(ctx context.Context) error {
			return a.health.Serve(ctx, healthcheck.ServeOptions{Address: health, Failed: a.cannotServe(health)})
		})
	}
	if metrics != "" {
		jobs.start(func(ctx context.Context) error {
			return a.health.Serve(ctx, healthcheck.ServeOptions{Address: metrics, Handler: a.metricsMux(), Failed: a.cannotServe(metrics)})
		})
	}
}

func (a *agent) cannotServe(address string) func(error) {
	return func(err error) { a.logger.Error("cannot serve", "address", address, "error", err) }
}

// metricsMux has the paths that kube-proxy has on its metrics port, and /livez.
func (a *agent) metricsMux() *http.ServeMux {
	mux := http.NewServeMux()
	mux.Handle("/metrics", a.metrics.handler())
	mux.Handle(healthcheck.PathHealthz, a.health.Healthz())
	mux.Handle(healthcheck.PathLivez, a.health.Livez())
	mux.HandleFunc("/proxyMode", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(a.opts.backend))
	})
	return mux
}
