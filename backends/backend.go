package backends

import (
	"context"

	"github.com/vipkit/vipkit/proxy/plan"
)

// A Backend programs one data plane, for both IP families. The caller never runs
// two methods of a Backend at once. The package documentation says how to write one.
type Backend interface {
	// Sync makes the data plane equal d.New; d is not nil. The Delta and all it points to may be kept but
	// not changed. Unless d is Full the cost is that of d's Changes.
	//
	// A nil error acknowledges the Delta. A [plan.PartialError], also wrapped,
	// acknowledges all but the ports it names, which stay as they were. After any
	// other error the caller knows nothing about the data plane, and its next Delta is
	// Full.
	//
	// When ctx is done, Sync ends between two atomic steps and returns an error.
	Sync(ctx context.Context, d *plan.Delta) error

	// Cleanup removes everything that any instance of the Backend with the same
	// names ever made, and nothing else. It needs no Sync before. What is not there
	// is no error. A Sync that follows must be given a Full Delta.
	Cleanup(ctx context.Context) error
}

// A Prober can say before the first Sync whether it will work. proxy.Proxy.Run
// asks it once.
type Prober interface {
	// Probe looks for the kernel features, tools and rights that the Backend
	// needs, and changes nothing. The error names everything that is missing, with the
	// minimum version, and wraps [errors.ErrUnsupported] if the system lacks
	// a feature: see [UnsupportedError].
	Probe(ctx context.Context) error
}

// A Checker can find out whether somebody else changed what it made.
type Checker interface {
	// Check returns false if the data plane is not as the last Sync left it: the next
	// Delta is then Full. It changes nothing and must be cheap: proxy.Proxy.Run calls it at the
	// check interval.
	//
	// What could not be read is no change. Check then returns true and an error that says why, because a
	// false that stays the same after a Full Delta costs one at each check interval. With false the
	// error, if there is one, says what was found. Errors are only reported.
	Check(ctx context.Context) (ok bool, err error)
}
