package conntrack

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
)

const (
	// maxReads is how often the table is read in one pass if it changes meanwhile. The
	// kernel says so seldom; an error then leaves the rest to the next round.
	maxReads = 4

	// maxErrors is how many errors are told of one pass.
	maxErrors = 5

	// batchSize is how many stale flows are kept before they are deleted. The kernel
	// answers each, and the answers of a batch must fit into a socket's default
	// buffer of 208 KiB at about 1 KiB each.
	batchSize = 64
)

// Options configure a [Cleaner]. The zero value is ready to use on Linux.
type Options struct {
	// Table is what is cleaned. If nil, that of the network namespace of the calling
	// thread: [Netlink].
	Table Table

	// LocalAddrs lists the addresses of the node's interfaces, asked for only if
	// NodePorts are served on every local address. If nil, the kernel is asked.
	LocalAddrs func(context.Context, corev1.IPFamily) ([]netip.Addr, error)

	// OnPass is called after each pass over the table, for metrics. It may be nil.
	OnPass func(Pass)
}

// A Pass is what was done to the flows of one family.
type Pass struct {
	Family   corev1.IPFamily
	Flows    int // looked at; those of an interrupted read count again
	Deleted  int
	Duration time.Duration
	Err      error // nil if all stale flows are gone
}

// A Cleaner is a consumer of Deltas that deletes the flows each makes stale. It remembers only what [Cleaner.Tried]
// was given. Sync must not be called before the rules of d.New are in place: a
// client would bring a deleted flow back at once.
type Cleaner struct {
	opts   Options
	doubts map[corev1.IPFamily]*doubts
}

// New returns a Cleaner.
func New(opts Options) *Cleaner {
	if opts.Table == nil {
		opts.Table = Netlink{}
	}
	if opts.LocalAddrs == nil {
		opts.LocalAddrs = localAddrs
	}
	return &Cleaner{opts: opts}
}

// Sync deletes the flows that d makes stale, in both families. It reads nothing if no UDP
// frontend and no serving endpoint changed. After an error some stale flows may be
// left; those that could be deleted are. The cost is that of all UDP flows of the family.
func (c *Cleaner) Sync(ctx context.Context, d *plan.Delta) error {
	var errs []error
	for _, f := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		if err := c.clean(ctx, d, f); err != nil {
			errs = append(errs, fmt.Errorf("conntrack: clean %s: %w", f, err))
		}
	}
	return errors.Join(errs...)
}

func (c *Cleaner) clean(ctx context.Context, d *plan.Delta, f corev1.IPFamily) error {
	j := newJudge(d, f, nil, c.doubts[f])
	if j.Idle() {
		return nil
	}
	if j.now.Any || j.before.Any {
		local, err := c.opts.LocalAddrs(ctx, f)
		if err != nil {
			return fmt.Errorf("list local addresses: %w", err)
		}
		j = newJudge(d, f, local, c.doubts[f])
	}
	start := time.Now()
	p := Pass{Family: f}
	for range maxReads {
		p.Err = c.pass(ctx, j, &p)
		if !errors.Is(p.Err, ErrInterrupted) {
			break
		}
	}
	if p.Err == nil {
		delete(c.doubts, f)
	}
	p.Duration = time.Since(start)
	if c.opts.OnPass != nil {
		c.opts.OnPass(p)
	}
	return p.Err
}

// pass reads the table once. What could be read of it is judged in any case.
func (c *Cleaner) pass(ctx context.Context, j *Judge, p *Pass) error {
	var errs []error
	stale := make([]Flow, 0, batchSize)
	remove := func() {
		n, err := c.opts.Table.Delete(ctx, stale)
		p.Deleted += n
		if err != nil && len(errs) < maxErrors {
			errs = append(errs, fmt.Errorf("delete flows: %w", err))
		}
		stale = stale[:0]
	}
	for flow, err := range c.opts.Table.Flows(ctx, p.Family) {
		if err != nil {
			errs = append(errs, fmt.Errorf("read flows: %w", err))
			break
		}
		p.Flows++
		if !j.Stale(flow) {
			continue
		}
		if stale = append(stale, flow); len(stale) == batchSize {
			remove()
		}
	}
	if len(stale) > 0 {
		remove()
	}
	return errors.Join(errs...)
}
