package main

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	fakebackend "github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/examples/internal/manifests"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

const (
	soakServices = 2000
	soakRate     = 250 // events a second that are aimed at
	soakLeast    = 200 // events a second that must be reached
	soakPhases   = 3   // each ends in quiescence
	soakSample   = 200 // packets that are checked in quiescence
	// soakHeap is how much the heap may grow from the first to the last quiescence.
	soakHeap = 1.10
)

// A soak is a folder of Services that change at random, with an agent that follows it.
type soak struct {
	dir   string
	lab   *netlab.Lab
	agent *agent
	rng   *rand.Rand

	events, checks, wrong int // during churn
	took                  time.Duration
	right                 int // packets in quiescence
}

// TestSoak changes 2,000 Services at random for the time that VIPKIT_SOAK says, and
// compares what packets meet with what a plan says that was made of the same files at once.
func TestSoak(t *testing.T) {
	duration, err := time.ParseDuration(os.Getenv("VIPKIT_SOAK"))
	if err != nil {
		t.Skip("VIPKIT_SOAK is no duration")
	}
	s := &soak{dir: t.TempDir(), lab: newLab(t), rng: rand.New(rand.NewPCG(3, 4))}
	for n := range soakServices {
		s.change(t, n)
	}
	s.changeNode(t)
	goroutines := runtime.NumGoroutine()
	stop := s.start(t)
	s.quiesce(t, 0)
	first := heap()
	for phase := range soakPhases {
		s.churn(t, duration/soakPhases)
		s.quiesce(t, phase+1)
	}
	last := heap()
	rate := float64(s.events) / s.took.Seconds()
	t.Logf("%d events, %.0f a second; %d packets during churn, of which %d met rules that were about to change; %d of %d packets afterwards were right",
		s.events, rate, s.checks, s.wrong, s.right, (soakPhases+1)*soakSample)
	if rate < soakLeast {
		t.Errorf("%.0f events a second, want %d: the machine is too slow", rate, soakLeast)
	}
	t.Logf("heap %d KiB after the start, %d KiB at the end", first>>10, last>>10)
	if float64(last) > soakHeap*float64(first) {
		t.Errorf("the heap grew from %d to %d bytes", first, last)
	}
	stop()
	eventually(t, func() bool { runtime.Gosched(); return runtime.NumGoroutine() <= goroutines },
		func() string { return fmt.Sprintf("%d goroutines, %d before", runtime.NumGoroutine(), goroutines) })
}

// heap is the least of several measurements, as the agent reads its folder meanwhile.
func heap() uint64 {
	least := uint64(math.MaxUint64)
	for range 10 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		least = min(least, m.HeapAlloc)
		<-time.After(pollInterval / 7)
	}
	return least
}

// start runs an agent on the node, in this process.
func (s *soak) start(t *testing.T) (stop func()) {
	t.Helper()
	opts, err := parseFlags(args(s.dir), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	if s.agent, err = newAgent(opts, discard{}, quiet); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- s.lab.Namespace(netlab.NodeName).Do(func() error {
			defer s.agent.close()
			return s.agent.run(ctx)
		})
	}()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

// soakProtocol is that of Service n's only port.
func soakProtocol(n int) corev1.Protocol {
	if n%4 == 0 {
		return corev1.ProtocolUDP
	}
	return corev1.ProtocolTCP
}

// soakIP is the ClusterIP of Service n, soakVIP its load-balancer IP.
func soakIP(n int) string  { return fmt.Sprintf("10.96.%d.%d", 1+n/250, 1+n%250) }
func soakVIP(n int) string { return fmt.Sprintf("198.18.%d.%d", 1+n/250, 1+n%250) }

// change does something to Service n: removes it, or gives it other endpoints,
// hints, policies or another type.
func (s *soak) change(t *testing.T, n int) {
	t.Helper()
	name := fmt.Sprintf("s%04d", n)
	if s.rng.IntN(10) == 0 {
		if err := os.Remove(filepath.Join(s.dir, name+".yaml")); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		return
	}
	pick := func(choices ...string) string { return choices[s.rng.IntN(len(choices))] }
	var b strings.Builder
	kind := pick("ClusterIP", "ClusterIP", "NodePort", "LoadBalancer")
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Service\nmetadata: {name: %s}\nspec:\n  type: %s\n  clusterIP: %s\n  ipFamilies: [IPv4]\n",
		name, kind, soakIP(n))
	fmt.Fprintf(&b, "  internalTrafficPolicy: %s\n", pick("Cluster", "Cluster", "Local"))
	fmt.Fprintf(&b, "  sessionAffinity: %s\n", pick("None", "None", "None", "ClientIP"))
	port := fmt.Sprintf("port: 80, protocol: %s", soakProtocol(n))
	if kind != "ClusterIP" {
		policy := pick("Cluster", "Local")
		fmt.Fprintf(&b, "  externalTrafficPolicy: %s\n", policy)
		if kind == "LoadBalancer" && policy == "Local" {
			fmt.Fprintf(&b, "  healthCheckNodePort: %d\n", 5000+n)
		}
		port += fmt.Sprintf(", nodePort: %d", 30000+n)
	}
	fmt.Fprintf(&b, "  ports: [{%s}]\n", port)
	if kind == "LoadBalancer" {
		fmt.Fprintf(&b, "  loadBalancerSourceRanges: [%s]\n", pick("", "192.0.2.0/28", "203.0.113.0/24"))
		fmt.Fprintf(&b, "status: {loadBalancer: {ingress: [{ip: %s}]}}\n", soakVIP(n))
	}
	fmt.Fprintf(&b, "---\napiVersion: discovery.k8s.io/v1\nkind: EndpointSlice\nmetadata: {name: %[1]s-1, labels: {kubernetes.io/service-name: %[1]s}}\n"+
		"addressType: IPv4\nports: [{name: '', port: 8080, protocol: %[2]s}]\nendpoints:", name, soakProtocol(n))
	hints, none := s.rng.IntN(2) == 0, true
	for _, e := range []struct{ ip, node string }{{podOne, "node-1"}, {podTwo, "node-1"}, {podThree, "node-1"}, {elsewhereIP, "node-2"}} {
		if s.rng.IntN(2) == 0 {
			continue
		}
		none = false
		fmt.Fprintf(&b, "\n- {addresses: [%s], nodeName: %s, conditions: %s", e.ip, e.node,
			pick("{ready: true}", "{ready: true}", "{ready: false}", "{ready: false, serving: true, terminating: true}"))
		if hints {
			fmt.Fprintf(&b, ", hints: {forZones: [{name: %s}]}", pick("za", "zb"))
		}
		b.WriteString("}")
	}
	if none {
		b.WriteString(" []")
	}
	b.WriteString("\n")
	write(t, s.dir, name+".yaml", b.String())
}

// changeNode moves the node to a zone.
func (s *soak) changeNode(t *testing.T) {
	t.Helper()
	zone := []string{"za", "zb", "zc"}[s.rng.IntN(3)]
	write(t, s.dir, "node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: node-1, labels: {topology.kubernetes.io/zone: "+zone+"}}\n"+
		"status: {addresses: [{type: InternalIP, address: "+nodeIP+"}]}\n")
}

// churn changes Services for a while, and looks at a packet now and then.
func (s *soak) churn(t *testing.T, duration time.Duration) {
	t.Helper()
	ticker := time.NewTicker(time.Second / 10)
	defer ticker.Stop()
	began := time.Now()
	done := 0
	for n := 0; time.Since(began) < duration; n++ {
		// As many as are due, also after a pause.
		for due := int(time.Since(began).Seconds() * soakRate); done < due; done++ {
			s.change(t, s.rng.IntN(soakServices))
		}
		if n%100 == 50 {
			s.changeNode(t)
		}
		if n%2 == 0 {
			s.checks++
			p := s.agent.proxy.Plan()
			if s.differs(t, p, s.packet(p)) != "" {
				s.wrong++ // the rules follow the plan, and the packet is faster
			}
		}
		<-ticker.C
	}
	s.events += done
	s.took += time.Since(began)
}

// quiesce waits until the agent has done everything and checks a sample of packets.
func (s *soak) quiesce(t *testing.T, phase int) {
	t.Helper()
	// The plan of the files and nothing before.
	want := s.cold(t)
	text := want.String()
	eventually(t, func() bool { return s.agent.proxy.Plan().String() == text },
		func() string { return "the agent's plan is not that of the files" })
	// A round later everything before is in the kernel.
	name, ip := "sentinel.yaml", fmt.Sprintf("10.96.200.%d", phase+1)
	write(t, s.dir, name, strings.Replace(service("sentinel", 1, "", podOne), "10.96.0.1\n", ip+"\n", 1))
	expect(t, s.lab, ip+":80", podOne)
	want = s.cold(t)
	for range soakSample {
		if wrong := s.differs(t, want, s.packet(want)); wrong != "" {
			t.Errorf("phase %d: %s", phase, wrong)
			continue
		}
		s.right++
	}
}

// cold returns the plan that a new agent makes of the files.
func (s *soak) cold(t *testing.T) *plan.Plan {
	t.Helper()
	objects, _, err := manifests.Load([]string{s.dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	config := s.agent.opts.node.Config()
	config.Node, _ = s.agent.opts.node.Node(objects.Nodes)
	p, err := proxy.New(proxy.Options{Backend: &fakebackend.Backend{}, Config: config})
	if err != nil {
		t.Fatal(err)
	}
	p.ReplaceServices(objects.Services)
	p.ReplaceEndpointSlices(objects.EndpointSlices)
	if err := p.Step(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p.Plan()
}

// packet is one from anywhere to any frontend of the plan.
func (s *soak) packet(p *plan.Plan) netlab.Probe {
	for {
		n := s.rng.IntN(soakServices)
		to := []string{soakIP(n) + ":80", soakVIP(n) + ":80", fmt.Sprintf("%s:%d", nodeIP, 30000+n)}[s.rng.IntN(3)]
		probe := netlab.Probe{
			From:        []string{"pod", "client", netlab.NodeName, "one"}[s.rng.IntN(4)],
			Destination: netip.MustParseAddrPort(to),
			Protocol:    soakProtocol(n),
			Timeout:     2 * time.Second,
		}
		if s.trace(p, probe).Verdict != plan.Pass {
			return probe // others go to nobody or to a closed port, whatever the proxy does
		}
	}
}

// trace asks the plan.
func (s *soak) trace(p *plan.Plan, probe netlab.Probe) plan.Trace {
	source := map[string]string{"pod": clientPodIP, "client": clientIP, netlab.NodeName: nodeIP, "one": podOne}[probe.From]
	return p.Trace(plan.Packet{
		Source:      netip.MustParseAddr(source),
		Destination: probe.Destination,
		Protocol:    probe.Protocol,
		Interface:   s.lab.Interface(probe.From),
	})
}

// differs sends a packet and says in what it met something else than the plan says.
func (s *soak) differs(t *testing.T, p *plan.Plan, probe netlab.Probe) string {
	t.Helper()
	trace := s.trace(p, probe)
	if trace.Verdict == plan.Drop {
		probe.Timeout = 100 * time.Millisecond
	}
	res, err := s.lab.Probe(probe)
	if err != nil {
		t.Fatal(err)
	}
	want := map[plan.Verdict]netlab.Outcome{plan.Forward: netlab.Answered, plan.Reject: netlab.Refused, plan.Drop: netlab.NoAnswer}[trace.Verdict]
	switch {
	case res.Outcome != want:
		return fmt.Sprintf("%s dials %s %s: %s, want %s: %s", probe.From, probe.Protocol, probe.Destination, res.Outcome, trace.Verdict, trace.Reason)
	case want == netlab.Answered:
		return s.wrongServer(probe, trace, res.Answer)
	default:
		return ""
	}
}

// wrongServer compares who answered and whom the server saw.
func (s *soak) wrongServer(probe netlab.Probe, trace plan.Trace, answer netlab.Answer) string {
	var possible []netip.AddrPort
	for _, e := range trace.Endpoints {
		possible = append(possible, e.Addr)
	}
	if !slices.Contains(possible, answer.Server) {
		return fmt.Sprintf("%s dials %s: %s answers, want one of %v: %s", probe.From, probe.Destination, answer.Server, possible, trace.Reason)
	}
	hairpin := answer.Server.Addr() == trace.Packet.Source
	if got, want := answer.Peer.Addr() != trace.Packet.Source, (trace.Masquerade && probe.From != netlab.NodeName) || hairpin; got != want {
		return fmt.Sprintf("%s dials %s: %s sees %s, masquerade should be %t", probe.From, probe.Destination, answer.Server, answer.Peer, want)
	}
	return ""
}
