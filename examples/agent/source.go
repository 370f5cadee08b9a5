package main

import "log/slog"

func newSource(opts options, logger *slog.Logger) (source, error) {
	if opts.source.dir != "" {
		return newFolder(opts.source.dir, opts.once, logger), nil
	}
	return newCluster(opts, logger)
}
