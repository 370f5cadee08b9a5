package main

import (
	"fmt"
	"log/slog"
)

// newCluster is where a source that follows a cluster is made.
func newCluster(options, *slog.Logger) (source, error) {
	return nil, fmt.Errorf("-source kubeconfig: %w", errNotBuilt)
}
