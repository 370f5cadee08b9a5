package proxy

import "time"

// A schedule decides when the next round, check or sweep is due. It holds no lock and
// reads no clock.
type schedule struct {
	minInterval, minBackoff, maxBackoff, fullInterval time.Duration

	checkInterval, sweepInterval time.Duration // not above 0 if the Backend has nothing to check or sweep

	requested bool   // something waits for a round
	reset     Reason // why the next round must be full, "" if it need not be
	started   bool   // there was a round

	ended            time.Time // when the last round ended
	backoff          time.Duration
	retryAt          time.Time // zero unless the last round failed
	portsAt          time.Time // when a port that failed is tried again, zero if none did
	fullAt           time.Time // when the next periodic full round is due, zero if never
	checkAt, sweepAt time.Time // zero before the first round
}

// next returns when the next round, check or sweep is due, the zero time if never; a
// time that is not after now means at once.
func (s *schedule) next(now time.Time) time.Time {
	return earliest(s.round(now), earliest(s.checkAt, s.sweepAt))
}

// round returns when the next round is due, the zero time if never.
func (s *schedule) round(now time.Time) time.Time {
	at := earliest(earliest(s.retryAt, s.portsAt), s.fullAt)
	if s.requested || s.reset != "" {
		at = now
	}
	if at.IsZero() {
		return at
	}
	return latest(at, s.ended.Add(s.minInterval))
}

// roundDue, checkDue and sweepDue say what to do at a time that next returned.
func (s *schedule) roundDue(now time.Time) bool { return due(s.round(now), now) }

func (s *schedule) checkDue(now time.Time) bool { return due(s.checkAt, now) }

func (s *schedule) sweepDue(now time.Time) bool { return due(s.sweepAt, now) }

// checked and swept record when the Backend was asked.
func (s *schedule) checked(now time.Time) { s.checkAt = now.Add(s.checkInterval) }

func (s *schedule) swept(now time.Time) { s.sweepAt = now.Add(s.sweepInterval) }

// restart makes a retry that waits due at once: the round may have failed because
// the loop was stopped.
func (s *schedule) restart(now time.Time) {
	if !s.retryAt.IsZero() {
		s.backoff, s.retryAt = 0, now
	}
}

// begin takes up all that waits. It returns why a round runs now, and whether
// all consumers have to do everything again. The round tries all ports that failed if all is set.
func (s *schedule) begin(now time.Time, all bool) (why Reason, full bool) {
	switch {
	case !s.started:
		why = ReasonFirst
	case s.reset != "":
		why, full = s.reset, true
	case due(s.fullAt, now):
		why, full = ReasonPeriodic, true
	case !s.retryAt.IsZero(), due(s.portsAt, now), all && !s.portsAt.IsZero():
		why = ReasonRetry
	case s.requested:
		why = ReasonChange
	default:
		why = ReasonStep
	}
	s.requested, s.reset, s.started = false, "", true
	return why, full
}

// An outcome is how a round ended.
type outcome struct {
	failed  bool      // some consumer did not do everything, ports of the Backend aside
	full    bool      // the Backend acknowledged a full Delta
	portsAt time.Time // when one of those is tried again, zero if there are none
}

// end records how the round that began last ended.
func (s *schedule) end(now time.Time, o outcome) {
	s.ended, s.portsAt = now, o.portsAt
	if s.checkInterval > 0 && s.checkAt.IsZero() {
		s.checked(now)
	}
	if s.sweepInterval > 0 && s.sweepAt.IsZero() {
		s.swept(now)
	}
	if o.full && s.fullInterval > 0 {
		s.fullAt = now.Add(s.fullInterval)
	}
	if !o.failed {
		s.backoff, s.retryAt = 0, time.Time{}
		return
	}
	s.backoff = min(max(2*s.backoff, s.minBackoff), s.maxBackoff)
	s.retryAt = now.Add(s.backoff)
	if due(s.fullAt, now) {
		// A periodic round that failed is repeated by the backoff, not at once.
		s.fullAt = s.retryAt
	}
}

// earliest returns the earlier of two times, of which a zero one means never.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// due reports whether at has come; a zero at means never.
func due(at, now time.Time) bool { return !at.IsZero() && !at.After(now) }

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
