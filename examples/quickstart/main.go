// Quickstart shows what vipkit does, with real packets: it makes a small private
// network of namespaces, programs its node with the Services in manifests/, dials
// them from everywhere, then replaces one endpoint and shows how little is written.
//
//	go run ./examples/quickstart
//
// It needs root and nft. Without them it shows the plan, and what would happen to each
// packet, instead. Nothing outside of its own namespaces is touched, and those are
// gone when it ends.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "quickstart:", err)
		os.Exit(1)
	}
}

// run is what a node agent does, with a demo around it.
func run(ctx context.Context, out io.Writer) (err error) {
	objects, err := readManifests()
	if err != nil {
		return err
	}
	node, _ := proxy.ReadNode(objects.Nodes[0])

	demo, err := newDemo(ctx, out, objects)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, demo.close()) }()

	// The proxy takes objects in any order, as often as they come, and works out what
	// its backend has to do.
	p, err := proxy.New(proxy.Options{
		Backend: demo.backend,
		Config:  plan.Config{Node: node},
	})
	if err != nil {
		return err
	}
	p.ReplaceServiceCIDRs(objects.ServiceCIDRs)
	p.ReplaceServices(objects.Services)
	p.ReplaceEndpointSlices(objects.EndpointSlices)

	// Step does one round. An agent calls Run instead, which does a round whenever
	// something has changed, until its context is done.
	if err := demo.onNode(func() error { return p.Step(ctx) }); err != nil {
		return err
	}
	demo.showSync("All Services are programmed", p.Plan())
	if err := demo.dial(ctx, p.Plan(), flows()); err != nil {
		return err
	}

	// A pod of Service web is replaced by another one.
	p.SetEndpointSlice(withNewPod(objects))
	if err := demo.onNode(func() error { return p.Step(ctx) }); err != nil {
		return err
	}
	demo.showSync("Endpoint "+oldPod+" of default/web is replaced by "+newPod, p.Plan())
	if err := demo.dial(ctx, p.Plan(), flows()[:1]); err != nil {
		return err
	}

	return demo.onNode(func() error { return demo.backend.Cleanup(ctx) })
}
