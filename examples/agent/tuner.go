package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"time"

	"github.com/vipkit/vipkit/backends/conntrack"
)

// tunerFlags are kube-proxy's flags about the kernel's connection tracking, with its defaults.
type tunerFlags struct {
	on       bool
	settings conntrack.Settings
}

func (f *tunerFlags) register(fs *flag.FlagSet) {
	s := &f.settings
	*s = conntrack.DefaultSettings()
	fs.BoolVar(&f.on, "conntrack-sysctls", true, "set the kernel's connection tracking as the other -conntrack flags say")
	fs.IntVar(&s.MaxPerCore, "conntrack-max-per-core", s.MaxPerCore, "size of the table for each CPU, 1048576 in all at most; a larger table is left; 0: leave it alone")
	fs.IntVar(&s.MinMax, "conntrack-min", s.MinMax, "least size of the table, if -conntrack-max-per-core is not 0")
	fs.DurationVar(&s.TCPEstablished, "conntrack-tcp-timeout-established", s.TCPEstablished, "how long idle TCP connections are kept; 0: leave it alone")
	fs.DurationVar(&s.TCPCloseWait, "conntrack-tcp-timeout-close-wait", s.TCPCloseWait, "how long TCP connections in CLOSE_WAIT are kept; 0: leave it alone")
	fs.BoolVar(&s.TCPBeLiberal, "conntrack-tcp-be-liberal", false, "count TCP packets outside the window to their connection")
	fs.DurationVar(&s.UDP, "conntrack-udp-timeout", 0, "how long UDP flows without an answer are kept; 0: leave it alone")
	fs.DurationVar(&s.UDPStream, "conntrack-udp-timeout-stream", 0, "how long UDP flows with an answer are kept; 0: leave it alone")
}

func (f *tunerFlags) validate() error {
	s := f.settings
	for name, value := range map[string]int{"max-per-core": s.MaxPerCore, "min": s.MinMax} {
		if value < 0 {
			return fmt.Errorf("-conntrack-%s: %d is negative", name, value)
		}
	}
	for name, value := range map[string]time.Duration{
		"tcp-timeout-established": s.TCPEstablished, "tcp-timeout-close-wait": s.TCPCloseWait,
		"udp-timeout": s.UDP, "udp-timeout-stream": s.UDPStream,
	} {
		if value < 0 {
			return fmt.Errorf("-conntrack-%s: %v is negative", name, value)
		}
	}
	return nil
}

// A tuner sets the kernel's connection tracking. It is used from one goroutine at a time.
type tuner struct {
	settings conntrack.Settings
	root     string // of the file system
	logger   *slog.Logger
	done     bool
}

func newTuner(flags tunerFlags, logger *slog.Logger) *tuner {
	t := &tuner{root: "/", logger: logger}
	if flags.on {
		t.settings = flags.settings
	}
	return t
}

func (t *tuner) apply() error {
	written, err := t.settings.Apply(t.root)
	for _, w := range written {
		t.logger.Info("setting of the kernel written", "setting", w)
	}
	return err
}

// roundEnded applies the settings once. The files exist only when connection tracking is
// loaded, which the first rules do; so it tries again until a round has worked.
func (t *tuner) roundEnded(worked bool) {
	if t.done {
		return
	}
	err := t.apply()
	t.done = worked || err == nil
	if t.done && err != nil {
		t.logger.Warn("connection tracking is not as the -conntrack flags say: run the agent with -init-only and more rights first, or set it on the node, or leave it with -conntrack-sysctls=false",
			"error", oneLine(err))
	}
}

// initOnly sets what only a program with all rights can set, so that the agent itself needs fewer: the
// rules that Probe tries make the kernel load connection tracking.
func (a *agent) initOnly(ctx context.Context) error {
	if err := a.ready(ctx); err != nil {
		return err
	}
	return a.tuner.apply()
}
