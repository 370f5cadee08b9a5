package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// The gates that every Proxy has. The first ReplaceServices and the first
// ReplaceEndpointSlices open them, or Open.
const (
	GateServices       = "services"
	GateEndpointSlices = "endpointslices"
)

// The intervals that stand for zero in [Options].
const (
	DefaultMinBackoff    = time.Second
	DefaultMaxBackoff    = time.Minute
	DefaultFullInterval  = time.Hour // kube-proxy's
	DefaultCheckInterval = 30 * time.Second
	DefaultSweepInterval = time.Minute
)

// Options configure a [Proxy]. Only Backend is required.
type Options struct {
	// Backend programs the data plane. It is always the first to see a change.
	Backend backends.Backend

	// Consumers come after the Backend, in this order, once it has acknowledged: by
	// custom conntrack first, then health checks, then the user's own. What the Backend
	// tried in rounds that failed is in the Before of their next Delta: packets may have
	// followed it.
	Consumers []Consumer

	// Config is the configuration to start with. Its Node holds until SetNode,
	// and its ServiceCIDRs count besides those of SetServiceCIDR.
	Config plan.Config

	// Services and Endpoints choose and rewrite objects. Their hooks must not
	// call the Proxy.
	Services  service.Options
	Endpoints endpoints.Options

	// Gates are names of further sources that must have delivered, told by Open,
	// before anything is written or pruned: for instance "node".
	Gates []string

	// MinInterval is the least time from the end of a round to the start of the
	// next. 0 lets rounds follow each other at once; kube-proxy uses 1 s.
	MinInterval time.Duration

	// MinBackoff and MaxBackoff bound the time from the end of a failed round to
	// its retry, which doubles with each failure. Equal values retry at a fixed
	// interval. A change meanwhile does not wait for the retry. Each port that the Backend could
	// not write has a backoff of its own within the same bounds: until then, rounds leave it out unless it
	// changes, its address goes to another port, or the round is full. Zero
	// means DefaultMinBackoff and DefaultMaxBackoff.
	MinBackoff, MaxBackoff time.Duration

	// FullInterval is the time from the end of one full round to the next. Zero
	// means DefaultFullInterval; a negative value, never.
	FullInterval time.Duration

	// CheckInterval is how often Run calls the Check of a Backend that is a [backends.Checker].
	// Zero means DefaultCheckInterval; a negative value, never.
	CheckInterval time.Duration

	// SweepInterval is how often Run calls the Sweep of a Backend that is a [backends.Sweeper].
	// Zero means DefaultSweepInterval; a negative value, never.
	SweepInterval time.Duration

	// Observer is told what happens.
	Observer Observer

	// Logger gets a record at level Debug for each round, gate and problem. If
	// nil, nothing is logged.
	Logger *slog.Logger
}

// A Consumer is one more user of Deltas besides the Backend.
type Consumer struct {
	Name   string // for errors and the Observer: "conntrack"
	Syncer Syncer
}

// A Syncer follows the plan by Deltas. Nil acknowledges a Delta; a
// [plan.PartialError] all but some of its ports; after any other error the next Delta is
// Full. No two calls run at once. The Delta is not nil, and may be kept but not changed.
type Syncer interface {
	Sync(ctx context.Context, d *plan.Delta) error
}

// A Follower is a Syncer that depends on what the Backend did, also in a round that failed: packets may have followed rules
// that are in no acknowledged plan. conntrack is one.
type Follower interface {
	// Tried is called in the place of Sync, in the same goroutine, with the Delta with which the Backend failed as a
	// whole: any part of it may have been in place. The Delta of the next Sync is Full.
	Tried(d *plan.Delta)
}

// A Listener is a Syncer that wants to know how the Backend does, as the health
// of a proxy is "nothing waits for too long". Calls are in order and never two at once, but
// may come while Sync runs. They must not block.
type Listener interface {
	// Queued is called when something begins to wait for the Backend, or goes on
	// waiting because a round failed, or could not write a port. It is not called before all gates are open.
	Queued()

	// Updated is called when the Backend has acknowledged all that waited when its
	// round began, and once when Run starts. A port that it could not write (PartialError) holds it back
	// for as long as that lasts, so that a node that cannot write is late; but not one that
	// the Backend refuses for what the port is ([errors.ErrUnsupported]), or one Service would make every node late.
	//
	// When an older wait has ended and a port still waits, Updated is called and Queued after it: the
	// count from there is short by at most what the port has waited already.
	Updated()
}

// withDefaults returns o with its zero intervals resolved.
func (o Options) withDefaults() Options {
	if o.MinBackoff == 0 {
		o.MinBackoff = DefaultMinBackoff
		if o.MaxBackoff > 0 {
			o.MinBackoff = min(o.MinBackoff, o.MaxBackoff)
		}
	}
	if o.MaxBackoff == 0 {
		o.MaxBackoff = max(DefaultMaxBackoff, o.MinBackoff)
	}
	if o.FullInterval == 0 {
		o.FullInterval = max(DefaultFullInterval, o.MinInterval)
	}
	if o.CheckInterval == 0 {
		o.CheckInterval = DefaultCheckInterval
	}
	if o.SweepInterval == 0 {
		o.SweepInterval = DefaultSweepInterval
	}
	return o
}

// validate returns everything that is wrong with o, after withDefaults.
func (o Options) validate() error {
	var errs []error
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("proxy: options: "+format, args...))
	}
	if o.Backend == nil {
		bad("Backend is nil")
	}
	for i, c := range o.Consumers {
		if c.Name == "" || c.Syncer == nil {
			bad("Consumers[%d] has no name or no Syncer", i)
		}
	}
	for i, name := range o.Gates {
		if name == "" {
			bad("Gates[%d] is empty", i)
		}
	}
	if o.MinInterval < 0 {
		bad("MinInterval %v is negative", o.MinInterval)
	}
	if o.MinBackoff < 0 || o.MaxBackoff < o.MinBackoff {
		bad("MaxBackoff %v is less than MinBackoff %v, or one is negative", o.MaxBackoff, o.MinBackoff)
	}
	if o.FullInterval > 0 && o.FullInterval < o.MinInterval {
		bad("FullInterval %v is less than MinInterval %v", o.FullInterval, o.MinInterval)
	}
	return errors.Join(errs...)
}
