package backends

import (
	"context"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A Backend programs one data plane. The caller never runs two methods of a
// Backend at once.
type Backend interface {
	// Sync makes the data plane equal d.New. A nil error acknowledges the Delta.
	// A [plan.PartialError] acknowledges all but the ports it names, which stay
	// as they were. After any other error the caller knows nothing about
	// the data plane, and its next Delta is Full.
	Sync(ctx context.Context, d *plan.Delta) error

	// Cleanup removes everything that any instance of the Backend with the same
	// names ever made, and nothing else. It needs no Sync before. What is not there
	// is no error.
	Cleanup(ctx context.Context) error
}

// A Prober can say before the first Sync whether it will work.
type Prober interface {
	// Probe looks for the kernel features, tools and rights that the Backend
	// needs, and changes nothing. The error names everything that is missing, with the
	// minimum version, and wraps [errors.ErrUnsupported] if the system lacks
	// a feature.
	Probe(ctx context.Context) error
}

// A Checker can find out whether somebody else changed what it made.
type Checker interface {
	// Check returns false if the next Delta must be Full. It changes nothing and
	// must be cheap: it is called at the check interval.
	Check(ctx context.Context) (ok bool, err error)
}
