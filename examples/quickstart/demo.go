package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/backends/nftables"
	"github.com/vipkit/vipkit/examples/internal/manifests"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A demo is the stage on which the proxy plays: a network with the nftables backend in
// its node or, where that cannot be had, the fake backend and no network.
type demo struct {
	out     io.Writer
	backend backends.Backend
	lab     *netlab.Lab // nil if packets are only traced

	stats backends.Stats // of the last Sync
	shown bool           // the plan was printed
}

// newDemo builds the network. Only an error that has nothing to do with what the
// system can do is returned; otherwise the demo goes on without packets and says why.
func newDemo(ctx context.Context, out io.Writer, objects *manifests.Objects) (*demo, error) {
	d := &demo{out: out}
	err := d.build(ctx, objects)
	if err == nil {
		d.printf("Node %s and its neighbours are network namespaces of this process.\n\n", objects.Nodes[0].Name)
		return d, nil
	}
	if closeErr := d.close(); closeErr != nil || !errors.Is(err, errors.ErrUnsupported) {
		return nil, errors.Join(err, closeErr)
	}
	d.printf("Packets are only traced, since something is missing (root and nft are needed):\n  %v\n\n", err)
	d.backend = &fake.Backend{}
	return d, nil
}

func (d *demo) build(ctx context.Context, objects *manifests.Objects) error {
	lab, err := newLab(objects)
	if err != nil {
		return err
	}
	d.lab = lab
	backend, err := nftables.New(nftables.Options{OnSync: func(s backends.Stats) { d.stats = s }})
	if err != nil {
		return err
	}
	d.backend = backend
	return d.onNode(func() error { return backend.Probe(ctx) })
}

// onNode runs fn in the network of the node: whatever programs a data plane
// programs that of its own namespace.
func (d *demo) onNode(fn func() error) error {
	if d.lab == nil {
		return fn()
	}
	return d.lab.Namespace(netlab.NodeName).Do(fn)
}

// close removes the network, and with it all that was programmed there.
func (d *demo) close() error {
	if d.lab == nil {
		return nil
	}
	lab := d.lab
	d.lab = nil
	return lab.Close()
}

// showSync tells what the last round wrote; without packets, what the plan is.
func (d *demo) showSync(what string, p *plan.Plan) {
	d.printf("== %s\n", what)
	switch {
	case d.lab != nil:
		d.printf("   %d of %d Service ports written: %d nft statements in %s\n",
			d.stats.Changes, p.Len(), d.stats.Written, d.stats.Duration.Round(time.Millisecond/10))
		if d.stats.Full {
			d.printf("   (most of them, once for all, are chains that Services share)\n")
		}
		d.printf("\n")
	case !d.shown:
		d.shown = true
		d.printf("%s\n", p)
	default:
		d.printf("\n")
	}
}

func (d *demo) printf(format string, args ...any) {
	_, _ = fmt.Fprintf(d.out, format, args...)
}
