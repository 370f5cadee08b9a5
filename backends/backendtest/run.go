package backendtest

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends"
	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/proxy/plan"
)

//go:embed testdata/*.txtar testdata/faults/*.txtar
var embedded embed.FS

// Scenarios returns the scenarios of this package, to be read or copied.
func Scenarios() fs.FS {
	files, err := fs.Sub(embedded, "testdata")
	if err != nil {
		return embedded // cannot happen: the name is valid
	}
	return files
}

// A Limit is something that a data plane may be unable to do.
type Limit string

// The limits that scenarios know.
const (
	// NoLoopbackNodePorts says that NodePorts are not served on loopback addresses,
	// whatever is configured: packets pass untouched.
	NoLoopbackNodePorts Limit = "no-loopback-nodeports"

	// BoundAddresses says that the node itself has the external and load-balancer IPs: their
	// unused ports are refused.
	BoundAddresses Limit = "bound-addresses"

	// LongAffinity says that a client stays with its endpoint for longer than the timeout
	// of the affinity, and that a new timeout is not that of clients that have an endpoint already.
	LongAffinity Limit = "long-affinity"

	// NoUDPDrain says that flows of UDP leave their endpoint at once when it is removed:
	// they go on at another one, if there is any, and the datagram that is under way may get no answer.
	NoUDPDrain Limit = "no-udp-drain"

	// StaleUDPEnds says that flows of UDP leave an endpoint when it no longer serves, as with a
	// whole proxy that removes their entries of connection tracking: they go on at another
	// one, if there is any.
	StaleUDPEnds Limit = "stale-udp-ends"

	// HeldTogether says that a Service which the data plane refuses holds back those that take its addresses or give it
	// theirs: the [plan.PartialError] names them too.
	HeldTogether Limit = "held-together"
)

// Config says what [Run] tests.
type Config struct {
	// New returns a Backend that has just started, for data planes that are in the kernel. All of its instances are the same
	// program on one node: one takes over what another left. New and all methods
	// of the Backend are called in the network namespace of the node, on a locked thread: a
	// goroutine that the Backend starts is in another one. Required, or Node or NewProxy.
	New func(t *testing.T) backends.Backend

	// Node is used instead of New for data planes that are not in the kernel. It makes one, and returns the function that starts a Backend on
	// it: the data plane outlives the process, so that the next one takes over what the last one left.
	Node func(t *testing.T) (start func(t *testing.T) backends.Backend)

	// NewProxy is used instead of New to judge a whole Service proxy from outside. Each one that it returns
	// takes over from the last, which was stopped.
	NewProxy func(t *testing.T) Proxy

	// Asynchronous says that the Set of a Proxy returns before the rules are written. The suite then adds a
	// Service of its own, and waits at each change until that is served as it should be.
	Asynchronous bool

	// Limits are what the data plane cannot do.
	Limits []Limit

	// Scenarios are files to play instead of [Scenarios], and of the flood.
	Scenarios fs.FS
}

// A Tracer is a Backend without a kernel: it says itself what happens to a packet.
type Tracer interface {
	Trace(packet plan.Packet) plan.Trace
}

// A Dumper shows what it made in the kernel, for people.
type Dumper interface {
	Dump(ctx context.Context) string
}

// Run plays every scenario in a subtest of its own. It needs no kernel if the Backend is
// a [Tracer]; see the package documentation for when it skips.
func Run(t *testing.T, cfg Config) {
	t.Helper()
	files := cfg.Scenarios
	if files == nil {
		files = Scenarios()
	}
	scenarios, err := load(files)
	if err != nil {
		t.Fatal(err)
	}
	// Scenarios mostly wait, so there are more at work than tests that run in parallel.
	var workers sync.WaitGroup
	queue := make(chan *scenario)
	for range 2 * runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for s := range queue {
				t.Run(s.name, func(t *testing.T) { newPlayer(t, cfg, s).play(t) })
			}
		})
	}
	for _, s := range scenarios {
		queue <- s
	}
	close(queue)
	workers.Wait()
	if cfg.Scenarios != nil {
		return
	}
	if cfg.faults(t) {
		runFaults(t, cfg)
	}
	if !cfg.traces(t) {
		runFloods(t, cfg)
	}
}

// node returns the function that starts a Backend on a new data plane.
func (cfg Config) node(t *testing.T) (start func(t *testing.T) backends.Backend) {
	t.Helper()
	if cfg.Node != nil {
		return cfg.Node(t)
	}
	return cfg.New
}

// traces reports whether the data plane says itself what happens to packets, so that none are sent.
func (cfg Config) traces(t *testing.T) bool {
	t.Helper()
	if cfg.NewProxy != nil {
		return false
	}
	_, ok := cfg.node(t)(t).(Tracer)
	if ok && cfg.Node == nil {
		t.Fatal("backendtest: a Backend that answers Trace has a data plane of its own, which Config.Node makes")
	}
	return ok
}

// faults reports whether the data plane fails if it is told to.
func (cfg Config) faults(t *testing.T) bool {
	t.Helper()
	if cfg.NewProxy != nil {
		return false
	}
	_, ok := cfg.node(t)(t).(Faulter)
	return ok
}

// A player plays one scenario.
type player struct {
	cfg      Config
	scenario *scenario
	book     *book
	world    *world
	lab      *netlab.Lab                         // nil if the Backend is a Tracer
	node     func(t *testing.T) backends.Backend // starts a Backend
	backend  backends.Backend
	failing  map[plan.Key]bool // ports that the data plane refuses now
	previous *plan.Plan        // before the last step
	images   images
	noSCTP   bool // the kernel has no sockets of it
	quick    bool // VIPKIT_QUICK
	pace     pace
	marker   marker

	found map[string]map[string]visit // by flow and client, of sticky lines

	shown bool // the plan and the rules, with a failure

	mu    sync.Mutex
	conns map[string]*netlab.Conn // by name of the open tag and variant
}

func newPlayer(t *testing.T, cfg Config, s *scenario) *player {
	t.Helper()
	p := &player{
		cfg: cfg, scenario: s, book: newBook(),
		found: map[string]map[string]visit{}, conns: map[string]*netlab.Conn{},
		quick: os.Getenv("VIPKIT_QUICK") != "",
	}
	p.marker.player = p
	var err error
	if p.world, err = newWorld(p.book); err != nil {
		t.Fatal(err)
	}
	if !cfg.traces(t) {
		p.noSCTP = lacksSCTP(t)
		p.lab = newLab(t)
		p.pace = measure(t, p.lab)
		p.serveControl(t)
		p.serve(t)
	}
	if cfg.NewProxy == nil {
		p.node = cfg.node(t)
	}
	p.start(t)
	p.unchanged(t, "before the first Sync")
	p.images.empty = p.image(t)
	return p
}

// newLab skips or fails the test if the system has no namespaces for us.
func newLab(t *testing.T) *netlab.Lab {
	t.Helper()
	lab, err := netlab.New(labOptions())
	if err != nil {
		require(t, err, "")
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	return lab
}

// require skips the test if err says that the system lacks something and the
// environment does not insist on it, and fails it otherwise.
func require(t *testing.T, err error, what string) {
	t.Helper()
	insist := os.Getenv("VIPKIT_REQUIRE_KERNEL")
	if errors.Is(err, errors.ErrUnsupported) && (insist == "" || !strings.Contains(insist, what)) {
		t.Skip(err)
	}
	t.Fatal(err)
}

func lacksSCTP(t *testing.T) bool {
	t.Helper()
	err := netlab.HasProtocol(corev1.ProtocolSCTP)
	if err != nil && !errors.Is(err, errors.ErrUnsupported) {
		t.Fatal(err)
	}
	return err != nil
}

// start makes a new Backend.
func (p *player) start(t *testing.T) {
	t.Helper()
	p.inNode(t, func() error {
		if p.cfg.NewProxy == nil {
			p.backend = p.node(t)
			return nil
		}
		return p.startProxy(t)
	})
}

// startProxy stops the proxy that runs, if any, and makes a new one. It is stopped at the end in any case.
func (p *player) startProxy(t *testing.T) error {
	t.Helper()
	if old, ok := p.backend.(*outside); ok {
		if err := old.proxy.Stop(t.Context()); err != nil {
			return err
		}
	}
	o := &outside{proxy: p.cfg.NewProxy(t), state: p.world.state, settled: p.settle}
	p.backend = o
	t.Cleanup(func() {
		if err := p.lab.Namespace(netlab.NodeName).Do(func() error { return o.proxy.Stop(context.WithoutCancel(t.Context())) }); err != nil {
			t.Error(err)
		}
	})
	return nil
}

// settle hands a state over, and waits until it is written.
func (p *player) settle(ctx context.Context, set func(marker State) error) error {
	if !p.cfg.Asynchronous {
		return set(State{})
	}
	return p.marker.settle(ctx, set)
}

// inNode runs f in the node's namespace, or anywhere if there is none.
func (p *player) inNode(t *testing.T, f func() error) {
	t.Helper()
	if err := p.do(f); err != nil {
		p.show(t)
		t.Fatal(err)
	}
}

func (p *player) do(f func() error) error {
	if p.lab == nil {
		return f()
	}
	return p.lab.Namespace(netlab.NodeName).Do(f)
}

// show logs the plan and the rules, once.
func (p *player) show(t *testing.T) {
	t.Helper()
	if p.shown {
		return
	}
	p.shown = true
	t.Logf("%s\n\nplan:\n%s", p.scenario.about, p.world.plan)
	d, ok := p.backend.(Dumper)
	if !ok {
		return
	}
	if err := p.do(func() error {
		t.Logf("rules:\n%s", d.Dump(context.WithoutCancel(t.Context())))
		return nil
	}); err != nil {
		t.Log(err)
	}
}

// play goes through the steps.
func (p *player) play(t *testing.T) {
	t.Helper()
	t.Cleanup(p.closeAll)
	var before []line
	for i, s := range p.scenario.steps {
		name := strings.TrimSpace(fmt.Sprintf("%d %s", i+1, s.about))
		p.previous = p.world.plan
		if !t.Run(name, func(t *testing.T) {
			p.change(t, before, s)
			p.unchanged(t, "after Sync")
			p.check(t, s.expect)
		}) {
			return
		}
		before = s.expect
	}
	for _, last := range []struct {
		name string
		run  func(*testing.T, []line)
	}{{"restart", p.restart}, {"cleanup", p.cleanup}, {"changed while away", p.changed}, {"emptied while away", p.emptied}} {
		if !t.Run(last.name, func(t *testing.T) { last.run(t, before) }) {
			return
		}
	}
	if p.noSCTP && p.uses(corev1.ProtocolSCTP) {
		t.Run("SCTP packets", func(t *testing.T) { require(t, netlab.HasProtocol(corev1.ProtocolSCTP), "sctp") })
	}
}

func (p *player) uses(proto corev1.Protocol) bool {
	for _, v := range p.scenario.variants {
		if v.protocol == proto {
			return true
		}
	}
	return false
}

// change applies a step while connections that work before and after it are made all
// the time.
func (p *player) change(t *testing.T, before []line, s step) {
	t.Helper()
	p.apply(t, s)
	p.failPorts(s.failing)
	stop := p.traffic(t, before, s.expect)
	defer stop()
	p.inNode(t, func() error { return p.compareRefused(p.world.sync(t.Context(), p.backend)) })
}

// apply takes a step over into the plan, and serves its endpoints.
func (p *player) apply(t *testing.T, s step) {
	t.Helper()
	if err := p.world.apply(s, p.scenario.variants); err != nil {
		t.Fatal(err)
	}
	p.serveEndpoints(t)
}
