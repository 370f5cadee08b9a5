package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

// durationUnit is how exactly a round's duration is told.
const durationUnit = 10 * time.Microsecond

// A reporter turns what the proxy tells into lines, records and metrics. The
// proxy calls it from one goroutine at a time.
type reporter struct {
	out     io.Writer
	logger  *slog.Logger
	metrics *metrics
	tuner   *tuner

	failed bool // the last round failed
}

func (r *reporter) observer() proxy.Observer {
	return proxy.Observer{
		Queued:        r.metrics.queued,
		RoundEnded:    r.roundEnded,
		Programmed:    func(_ types.NamespacedName, d time.Duration) { r.metrics.programmed.Observe(d.Seconds()) },
		Checked:       r.checked,
		Swept:         r.swept,
		ProblemFound:  func(p plan.Problem) { r.problem(slog.LevelWarn, "left out", p) },
		ProblemGone:   func(p plan.Problem) { r.problem(slog.LevelInfo, "no longer left out", p) },
		ConflictFound: func(c plan.Conflict) { r.logger.Warn("address is taken", "conflict", c) },
		ConflictGone:  func(c plan.Conflict) { r.logger.Info("address is free again", "conflict", c) },
	}
}

// roundEnded prints the line of the round.
func (r *reporter) roundEnded(round proxy.Round) {
	res, _ := round.Backend()
	failed := res.Failed
	if res.Err != nil && failed == 0 {
		failed = max(res.Changes, 1) // nothing was written
	}
	_, _ = fmt.Fprintf(r.out, "sync full=%t changes=%d statements=%d failed=%d duration=%s\n",
		res.Full, res.Changes, res.Stats.Written, failed, round.Duration.Round(durationUnit))
	r.metrics.roundEnded(round)
	r.logRound(round)
}

func (r *reporter) logRound(round proxy.Round) {
	switch {
	case errors.Is(round.Err, context.Canceled):
		r.logger.Info("the round was cut short, the next start completes it", "reason", round.Reason)
	case round.Err != nil:
		r.logger.Error("round failed", "reason", round.Reason, "error", oneLine(round.Err))
	case r.failed && round.Held == 0:
		r.logger.Info("round succeeded again", "reason", round.Reason)
	}
	r.failed = round.Err != nil || round.Held > 0
	r.tuner.roundEnded(round.Err == nil)
}

// swept is told what the backend removed since the last round.
func (r *reporter) swept(_ int, err error) {
	if err != nil {
		r.logger.Warn("endpoints that drained could not be removed", "error", oneLine(err))
	}
}

func (r *reporter) checked(changed []string, err error) {
	if len(changed) > 0 {
		r.metrics.repairs.Inc()
		r.logger.Warn("somebody else changed the data plane, repairing it", "changed", changed)
	}
	if err != nil {
		r.metrics.uncheckable.Inc()
		r.logger.Warn("the data plane cannot be checked", "error", oneLine(err))
	}
}

func (r *reporter) problem(level slog.Level, msg string, p plan.Problem) {
	r.logger.Log(context.Background(), level, msg, "object", p.Object, "field", p.Field, "problem", p.Err)
}

// logHealthPort tells of health-check ports that cannot be served.
func logHealthPort(logger *slog.Logger) func(types.NamespacedName, error) {
	return func(svc types.NamespacedName, err error) {
		if err != nil {
			logger.Warn("the health-check port is not served", "service", svc, "error", oneLine(err))
			return
		}
		logger.Info("the health-check port is served again", "service", svc)
	}
}

// oneLine returns the text of several errors that were joined, which is a line each.
func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }
