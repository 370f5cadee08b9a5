package proxy

import (
	"errors"
	"time"

	"github.com/vipkit/vipkit/proxy/plan"
)

// retries is which ports the Backend could not write, and when each is tried again. It belongs to
// whoever has the turn.
type retries struct {
	minBackoff, maxBackoff time.Duration
	ports                  map[plan.Key]retry
}

type retry struct {
	since   time.Time // of the first failure since the port was in place
	backoff time.Duration
	at      time.Time

	// own says that the Backend refuses the port for what it is, so that it says nothing of the node.
	own bool
}

// note records the ports that are not in place after a round, and why those failed that were tried.
func (r *retries) note(now time.Time, failed map[plan.Key]*plan.Port, errs map[plan.Key]error) {
	ports := make(map[plan.Key]retry, len(failed))
	for k := range failed {
		p, before := r.ports[k]
		if err, tried := errs[k]; tried || !before {
			if !before {
				p.since = now
			}
			p.backoff = min(max(2*p.backoff, r.minBackoff), r.maxBackoff)
			p.at = now.Add(p.backoff)
			p.own = errors.Is(err, errors.ErrUnsupported)
		}
		ports[k] = p
	}
	r.ports = ports
}

// next returns when the first port is tried again, the zero time if there is none.
func (r *retries) next() (at time.Time) {
	for _, p := range r.ports {
		at = earliest(at, p.at)
	}
	return at
}

// later reports whether a round at now leaves a port out. If one is due, those that are due soon are
// taken along, so that many ports do not make many rounds.
func (r *retries) later(now time.Time) func(plan.Key) bool {
	if due(r.next(), now) {
		now = now.Add(r.minBackoff / 2)
	}
	return func(k plan.Key) bool { return r.ports[k].at.After(now) }
}

// waiting returns since when the oldest port waits that the node is to blame for, the zero time if
// there is none.
func (r *retries) waiting() (since time.Time) {
	for _, p := range r.ports {
		if !p.own {
			since = earliest(since, p.since)
		}
	}
	return since
}
