package nftables

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// A breaker fails runs of nft as it is told.
type breaker struct {
	runner
	tb    testing.TB
	fault fault
	left  int // runs until the fault
}

type fault int

const (
	noFault        fault = iota
	failOnce             // one run does nothing
	failAll              // and none after it
	failCommitted        // one run commits, and says that it failed (#6)
	failBesides          // one run does nothing while somebody else commits
	failOneService       // every run with a certain Service does nothing
	numFaults
)

func (b *breaker) run(ctx context.Context, text []byte) error {
	return b.fail(text, func() error { return b.runner.run(ctx, text) })
}

// send fails batches in the same way.
func (b *breaker) send(m *batch) error {
	return b.fail(m.buf, func() error { return b.runner.(sender).send(m) })
}

// fail commits what data says, or not, as the fault is.
func (b *breaker) fail(data []byte, commit func() error) error {
	b.left--
	switch {
	case b.fault == failOneService && bytes.Contains(data, []byte("ns1/s1:")):
		return errRefused
	case b.left != 0 && (b.fault != failAll || b.left > 0):
		return commit()
	}
	switch b.fault {
	case failOnce, failAll:
		return errRefused
	case failCommitted:
		return cmp.Or(commit(), errRefused)
	case failBesides:
		foreign := b.runner.run(b.tb.Context(), []byte("add table ip other\ndelete table ip other\n"))
		return cmp.Or(foreign, errRefused)
	case noFault, failOneService, numFaults:
	}
	return commit()
}

// A chance makes changes at random. Few names and addresses make many moves.
type chance struct{ *rand.Rand }

func (c chance) flip() bool { return c.IntN(2) == 0 }

func (c chance) input() plan.Input {
	var apps []app
	for range 1 + c.IntN(3) {
		apps = append(apps, c.app(c.IntN(5)))
	}
	in := with(apps...)
	if c.IntN(6) == 0 {
		in.Config = c.config()
	}
	return in
}

func (c chance) app(i int) app {
	a := app{name: fmt.Sprint("s", i), gone: c.IntN(4) == 0}
	a.vip = fmt.Sprintf("10.96.0.%d", 10+c.IntN(6))
	if c.flip() {
		a.vip += fmt.Sprintf(" fd00:96::%d", 10+c.IntN(6))
	}
	var eps []string
	for n := range 5 {
		if c.flip() {
			eps = append(eps, fmt.Sprintf("10.180.%d.%d:8080@n%d", n%2, n, 1+n%2))
		}
		if c.flip() {
			eps = append(eps, fmt.Sprintf("[fd00:10:180:%d::%d]:8080@n%d", n%2, n, 1+n%2))
		}
	}
	a.eps = strings.Join(eps, " ")
	a.change = c.service
	return a
}

func (c chance) service(s *service.Service) {
	if c.flip() {
		externals(s)
		s.Ports[0].NodePort += uint16(c.IntN(3))
		s.IPv4.ExternalIPs[0] = addr(fmt.Sprintf("198.51.100.%d", c.IntN(3)))
		s.IPv4.LoadBalancerIPs[0] = addr(fmt.Sprintf("203.0.113.%d", c.IntN(3)))
	}
	if c.IntN(3) == 0 {
		affine(s)
	}
	if c.IntN(3) == 0 {
		s.IPv4.SourceRanges = []netip.Prefix{prefix("192.0.2.0/24"), prefix(fmt.Sprintf("10.%d.0.0/16", c.IntN(2)))}
	}
	s.ExternalLocal, s.InternalLocal = c.flip(), c.IntN(4) == 0
}

func (c chance) config() *plan.Config {
	return twoAddresses(func(cfg *plan.Config) {
		cfg.MasqueradeAll = c.flip()
		cfg.NodePortAddresses.All = c.flip()
		if c.flip() {
			cfg.ServiceCIDRs = []netip.Prefix{prefix("10.96.0.0/16")}
		}
		if c.flip() {
			cfg.Node.PodCIDRs = cfg.Node.PodCIDRs[:1]
		}
		if c.flip() {
			cfg.PodInterfaces = []string{"veth*"}
		}
	})
}

// TestFailAtAnyStep lets writes fail at any step of any sequence of changes, and the
// process start again in between. After one good Sync the tables mean what those of a fresh
// build mean, and another process finds nothing to write.
func TestFailAtAnyStep(t *testing.T) {
	for seed := range uint64(10) {
		t.Run(fmt.Sprint("#5 #6 #9 seed ", seed), func(t *testing.T) {
			t.Parallel()
			c := chance{rand.New(rand.NewPCG(seed, 11))}
			w := newWorld(t, nodeConfig())
			err := newNamespace(t).Do(func() error {
				w.failAndRepair(t, c)
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}

func (w *world) failAndRepair(t *testing.T, c chance) {
	t.Helper()
	b, br := newBroken(t)
	for range 2 {
		for range 5 {
			if c.IntN(6) == 0 {
				b, br = newBroken(t)
				w.cursor.Reset()
			}
			br.fault, br.left = fault(c.IntN(int(numFaults))), 1+c.IntN(3)
			_ = w.try(b, c.input()) // whatever came of it
		}
		br.fault = noFault
		w.sync(b, c.input())
		w.wantFresh(t)
		w.wantSettled(Options{})
		w.restart(b)
	}
}

func newBroken(t *testing.T) (*Backend, *breaker) {
	t.Helper()
	b := newBackend(t, Options{})
	br := &breaker{runner: b.runner, tb: t}
	b.runner = br
	return b, br
}
