package proxy

import (
	"log/slog"

	"github.com/vipkit/vipkit/proxy/plan"
)

// debug queues a record, as it may be called with a lock held.
func (p *Proxy) debug(msg string, args ...any) {
	if p.opts.Logger != nil {
		p.events.push(func() { p.opts.Logger.Debug(msg, args...) })
	}
}

func (p *Proxy) logGate(name string) { p.debug("gate opened", "gate", name) }

func (p *Proxy) logProblem(msg string, problem plan.Problem) {
	p.debug(msg, "object", problem.Object, "field", problem.Field, "problem", problem.Err)
}

func (p *Proxy) logCheck(changed []string, err error) {
	if len(changed) > 0 || err != nil {
		p.debug("data plane checked", "changed", changed, "error", err)
	}
}

func (p *Proxy) logSweep(left int, err error) {
	if err != nil {
		p.debug("sweep failed", "left", left, "error", err)
	}
}

func (p *Proxy) logRound(r Round) {
	if p.opts.Logger == nil {
		return
	}
	args := []any{"reason", r.Reason, "services", r.Services, "endpoints", r.Endpoints, "duration", r.Duration}
	for _, res := range r.Results {
		args = append(args, slog.Group(res.Name,
			"full", res.Full, "changes", res.Changes, "failed", res.Failed, "duration", res.Duration))
	}
	if r.Err != nil {
		args = append(args, "error", r.Err)
	}
	p.debug("round ended", args...)
}
