package main

import (
	"log/slog"

	"github.com/vipkit/vipkit/backends/conntrack"
	"github.com/vipkit/vipkit/proxy"
)

// flowConsumers returns what removes stale flows from the kernel's table.
func flowConsumers(m *metrics, logger *slog.Logger) []proxy.Consumer {
	cleaner := conntrack.New(conntrack.Options{OnPass: func(p conntrack.Pass) {
		m.flowsCleaned(p)
		if p.Deleted > 0 {
			logger.Info("stale flows removed", "family", p.Family, "flows", p.Deleted, "of", p.Flows)
		}
	}})
	return []proxy.Consumer{{Name: "conntrack", Syncer: cleaner}}
}
