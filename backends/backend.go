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

// A Checker compares the data plane with what it wrote.
type Checker interface {
	// Check compares the data plane with what the last Sync left, and changes nothing. changed names what
	// differs, in words for a log; it is empty if nothing does. One name is enough; [MostChanged] is the bound on
	// their number, and [MostChangedText] on the bytes of each. After a difference proxy.Proxy makes the next
	// Delta Full.
	//
	// err says what could not be compared. It never means that something differs: an error that lasts would
	// otherwise cost a full Sync at each check. It is only reported. If Check returns both, changed is what it
	// found before or beside the error.
	//
	// Before the first Sync, after a Cleanup, and after a Sync that returned an error other than a [plan.PartialError],
	// there is nothing to compare with, and the next Delta is Full anyway: Check returns nil, nil.
	//
	// Check must be cheap: proxy.Proxy.Run calls it at the check interval. A Backend may compare a
	// part each time.
	Check(ctx context.Context) (changed []string, err error)
}

// Bounds on what [Checker.Check] returns.
const (
	MostChanged     = 16  // names
	MostChangedText = 256 // bytes of each
)

// A Reporter says what it did. All backends of this module do.
type Reporter interface {
	// LastStats returns the Stats of the last Sync or Cleanup. proxy.Proxy puts those of a Sync into the Result of its round.
	LastStats() Stats
}

// A Warner knows what on the node may break Services without an error.
type Warner interface {
	// Warnings returns one sentence for each setting of the node, leftover of another program, or part of the
	// configuration of p that may surprise the user, or nil. p may be nil: then it looks at the node only. It changes
	// nothing. Call it after the first Sync, and not for each change: it may read files and run programs.
	Warnings(ctx context.Context, p *plan.Plan) []string
}

// A Sweeper leaves what still has open connections in place, and removes it later.
type Sweeper interface {
	// Sweep removes what has no open connections any more, or has waited for too long, and returns how many endpoints
	// are left. Sync does the same. proxy.Proxy.Run calls Sweep at the sweep interval, for times without changes. After
	// an error the state of the data plane is unknown, and the next Delta must be Full.
	Sweep(ctx context.Context) (left int, err error)
}

// A Preparer depends on settings of the node beyond its own objects.
type Preparer interface {
	// Prepare loads kernel modules and sets sysctls that the Backend needs, and returns one sentence for each setting
	// that it changed, with the value from before, also with an error. No other method changes any, and Cleanup
	// leaves them. Call it before the first Sync, or configure the node by other means: a [Warner] names what is
	// wrong. proxy.Proxy does not call it, since a process may lack the rights for it, or others may
	// own the settings.
	Prepare(ctx context.Context) (changed []string, err error)
}
