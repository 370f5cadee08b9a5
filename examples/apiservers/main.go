// Apiservers gives the API servers of a cluster one address on this node: it balances connections
// to the address over those servers that answer, without Services and without a cluster that
// works already.
//
//	apiservers -address 10.103.97.2:6443 -server 192.0.2.11:6443 -server 192.0.2.12:6443 -server 192.0.2.13:6443
//	apiservers -address 10.103.97.2:6443 -cleanup
//
// It needs root and a kernel with IPVS, and the node must have the address, on an interface of type dummy for
// instance. A server that answers no more gets no new connections; those that it has may go on for a
// while. If none answers all stay, since the fault may be on our side. When the program ends the virtual server stays.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/ipvs"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "apiservers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	var b balancer
	cleanup := false
	fs := flag.NewFlagSet("apiservers", flag.ContinueOnError)
	fs.TextVar(&b.address, "address", netip.AddrPort{}, "`IP:PORT` that clients dial (required)")
	fs.Func("server", "`IP:PORT` of an API server (repeats)", b.addServer)
	fs.DurationVar(&b.interval, "interval", 5*time.Second, "how often to ask the servers")
	fs.BoolVar(&cleanup, "cleanup", false, "remove the virtual server, and exit")
	if err := fs.Parse(args); err != nil {
		return err
	}
	kernel, err := ipvs.Open()
	if err != nil {
		return err
	}
	defer kernel.Close() //nolint:errcheck // nothing can be lost
	b.reconciler, b.out, b.answers = ipvs.NewReconciler(kernel, 0), out, dial
	if cleanup {
		return b.reconciler.Remove(b.key())
	}
	return b.follow(ctx)
}

// A balancer keeps one virtual server.
type balancer struct {
	address    netip.AddrPort
	servers    []netip.AddrPort
	interval   time.Duration
	reconciler *ipvs.Reconciler
	out        io.Writer
	answers    func(ctx context.Context, server netip.AddrPort) bool
}

func (b *balancer) addServer(text string) error {
	server, err := netip.ParseAddrPort(text)
	b.servers = append(b.servers, server)
	return err
}

func (b *balancer) key() ipvs.ServerKey {
	return ipvs.ServerKey{Addr: b.address, Protocol: corev1.ProtocolTCP}
}

// follow balances until ctx is done.
func (b *balancer) follow(ctx context.Context) error {
	tick := time.NewTicker(b.interval)
	defer tick.Stop()
	for {
		if err := b.balance(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// balance looks once who answers. Ensure compares with the kernel, so it can be called again
// and again: it writes only what differs.
func (b *balancer) balance(ctx context.Context) error {
	want := ipvs.VirtualServer{ServerKey: b.key(), Scheduler: "rr"}
	for _, server := range b.alive(ctx) {
		want.Real = append(want.Real, ipvs.RealServer{Addr: server, Weight: 1})
	}
	if err := b.reconciler.Ensure(ctx, want); err != nil {
		return err
	}
	left, err := b.reconciler.Sweep(ctx)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(b.out, "%s: %d servers, %d draining\n", b.address, len(want.Real), left)
	return err
}

// alive returns the servers that answer, or all if none does.
func (b *balancer) alive(ctx context.Context) []netip.AddrPort {
	answered := make([]bool, len(b.servers))
	var wg sync.WaitGroup
	for i, server := range b.servers {
		wg.Go(func() { answered[i] = b.answers(ctx, server) })
	}
	wg.Wait()
	var out []netip.AddrPort
	for i, ok := range answered {
		if ok {
			out = append(out, b.servers[i])
		}
	}
	if len(out) == 0 {
		return b.servers
	}
	return out
}

// dial is the simplest check; one that asks for /readyz is better.
func dial(ctx context.Context, server netip.AddrPort) bool {
	d := net.Dialer{Timeout: 2 * time.Second}
	c, err := d.DialContext(ctx, "tcp", server.String())
	if err != nil {
		return false
	}
	return c.Close() == nil
}
