package iptables

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

func (k *fakeKernel) lastInput() string {
	if len(k.inputs) == 0 {
		return ""
	}
	return k.inputs[len(k.inputs)-1]
}

// randomApp is one of ten Services in one of many states.
func randomApp(r *rand.Rand) app {
	i := r.IntN(10)
	a := app{name: fmt.Sprint("svc", i), vip: fmt.Sprintf("10.96.0.%d fd00:96::%d", 10+i, 10+i)}
	if r.IntN(5) > 0 {
		a.eps = localEPs
	}
	if r.IntN(2) > 0 {
		a.eps += " " + remoteEPs
	}
	for _, change := range []func(*service.Service){
		external, externalLocal, internalLocal, affine, restricted("198.51.100.0/24"),
		protocols(corev1.ProtocolTCP, corev1.ProtocolUDP),
		func(s *service.Service) { s.HealthCheckNodePort = 31000 },
		func(s *service.Service) { s.Ports[0].Name = "web" },
	} {
		if r.IntN(3) == 0 {
			a.changes = append(a.changes, change)
		}
	}
	return a
}

// TestAnyHistoryEndsInTheSameRules plays random changes, some of which fail in the middle, with
// restarts between them. In the end the kernel has what a first Sync makes.
func TestAnyHistoryEndsInTheSameRules(t *testing.T) {
	for seed := range uint64(12) {
		r := rand.New(rand.NewPCG(seed, 1))
		k := newFakeKernel()
		b, s := k.backend(t, Options{}), newStory(t, node())
		for step := range 25 {
			in := with(randomApp(r), randomApp(r))
			if r.IntN(6) == 0 {
				in = without(fmt.Sprint("svc", r.IntN(10)))
			}
			if r.IntN(8) == 0 {
				cfg := node()
				cfg.NodePortAddresses.All = r.IntN(2) == 0
				cfg.Node.PodCIDRs = cfg.Node.PodCIDRs[:r.IntN(3)]
				in.Config = &cfg
			}
			if r.IntN(5) == 0 {
				at := k.commits + 1 + r.IntN(5)
				k.fail = func(_ string, commit int) error { return failAt(commit, at) }
			}
			if r.IntN(5) == 0 {
				k.refuse = []string{"10.200.1.1:8080", "10.200.2.1:8080", "--dport 80 ", "REJECT", "-X VIPKIT-S", "-X VIPKIT-D", "[", "198.51.100.0/24"}[r.IntN(8)]
			}
			err := s.try(b, in)
			refused := k.refuse != "" // perhaps the way back too
			if k.fail, k.refuse = nil, ""; err != nil && !errors.Is(err, errFake) && !refused {
				t.Fatalf("seed %d, step %d: %v", seed, step, err)
			}
			if err != nil && r.IntN(2) == 0 && s.try(b, plan.Input{}) == nil {
				equal(t, k.all(), s.fresh())
			}
			if err != nil || r.IntN(6) == 0 {
				b = k.backend(t, Options{})
				s.restart(b)
			}
			equal(t, k.all(), s.fresh())
		}
	}
}

var errFake = errors.New("refused by the test")

func failAt(commit, at int) error {
	if commit == at {
		return errFake
	}
	return nil
}

// TestNothingIsLostWhenACommitFails is fault #5 for each commit of a change that has three.
func TestNothingIsLostWhenACommitFails(t *testing.T) {
	before := with(
		app{name: "a", vip: "10.96.0.10", eps: localEPs, changes: []func(*service.Service){external}},
		app{name: "b", vip: "10.96.0.11"}, app{name: "c", vip: "10.96.0.12", eps: remoteEPs})
	after := with(
		app{name: "a", vip: "10.96.0.10", eps: "", changes: []func(*service.Service){external, func(s *service.Service) { s.Ports[0].NodePort = 30081 }}},
		app{name: "b", vip: "10.96.0.11", eps: localEPs})
	after.Services[nameOf("c")] = nil
	for n := 1; n <= 3; n++ {
		t.Run(fmt.Sprintf("#5 F27 F28 commit %d fails", n), func(t *testing.T) {
			k := newFakeKernel()
			b, s := k.backend(t, Options{}), newStory(t, node())
			s.sync(b, before)
			at := k.commits + n
			k.fail = func(_ string, commit int) error { return failAt(commit, at) }
			if err := s.try(b, after); !errors.Is(err, errFake) {
				t.Fatalf("Sync = %v, want the error of the program", err)
			}
			if b.LastStats().Full {
				t.Error("the Sync that failed was full")
			}
			if stats := s.sync(b, plan.Input{}); !stats.Full {
				t.Error("the next Sync is not full")
			}
			equal(t, k.all(), s.fresh())
		})
	}
}

// TestOrderOfCommits is about packets between two commits: no frontend is let go by table
// nat before table filter denies it, and none denied by filter after nat took it
// up is still missing there.
func TestOrderOfCommits(t *testing.T) {
	tests := []struct {
		name          string
		before, after app
		want          string
	}{
		{"endpoints go", app{name: "a", vip: "10.96.0.10", eps: localEPs}, app{name: "a", vip: "10.96.0.10"}, "filter nat"},
		{"endpoints come", app{name: "a", vip: "10.96.0.10"}, app{name: "a", vip: "10.96.0.10", eps: localEPs}, "nat filter"},
		{
			"both: two frontends change places",
			app{name: "a", vip: "10.96.0.10", eps: remoteEPs, changes: []func(*service.Service){internalLocal, external}},
			app{name: "a", vip: "10.96.0.10", eps: remoteEPs, changes: []func(*service.Service){externalLocal, external}},
			"filter nat filter",
		},
		{"another endpoint", app{name: "a", vip: "10.96.0.10", eps: localEPs}, app{name: "a", vip: "10.96.0.10", eps: remoteEPs}, "nat"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			k := newFakeKernel()
			b, s := k.backend(t, Options{Families: []corev1.IPFamily{corev1.IPv4Protocol}}), newStory(t, node())
			s.sync(b, with(tt.before))
			s.sync(b, with(tt.after))
			var tables []string
			for line := range strings.Lines(k.lastInput()) {
				if name, ok := strings.CutPrefix(line, "*"); ok {
					tables = append(tables, strings.TrimSpace(name))
				}
			}
			if got := strings.Join(tables, " "); got != tt.want {
				t.Errorf("commits: %s, want %s\n%s", got, tt.want, k.lastInput())
			}
		})
	}
}

func TestPartialSyncNamesOnlyWhatChanged(t *testing.T) {
	t.Run("F25 F26", func(t *testing.T) {
		k := newFakeKernel()
		b, s := k.backend(t, Options{}), newStory(t, node())
		s.sync(b, with(app{name: "svc1", vip: "10.96.0.10", eps: localEPs}, app{name: "svc2", vip: "10.96.0.11", eps: localEPs}))
		saves := k.saves
		s.sync(b, with(app{name: "svc2", vip: "10.96.0.11", eps: remoteEPs}))
		one, two := "VIPKIT-"+hashed(letterCluster, "ns1/svc1:p80 tcp"), "VIPKIT-"+hashed(letterCluster, "ns1/svc2:p80 tcp")
		if in := k.lastInput(); strings.Contains(in, one) || !strings.Contains(in, ":"+two+" ") {
			t.Errorf("svc2 changed, restored:\n%s", in)
		}
		s.sync(b, without("svc1"))
		if in := k.inputs[len(k.inputs)-1]; !strings.Contains(in, "-X "+one) {
			t.Errorf("svc1 deleted, restored:\n%s", in)
		}
		if k.saves != saves {
			t.Error("a partial Sync read tables")
		}
		equal(t, k.all(), s.fresh())
	})
}

// TestLinesDoNotGrowWithServices counts what one changed endpoint and one new Service restore.
func TestLinesDoNotGrowWithServices(t *testing.T) {
	counts := make(map[int][2]int)
	sizes := []int{1000, 5000}
	for _, n := range sizes {
		k := newFakeKernel()
		b, s := k.backend(t, Options{}), newStory(t, node())
		s.sync(b, many(n, 10))
		one := with(app{name: "svc77", vip: manyVIP(77).String(), eps: "10.200.2.1:8080@n2 10.200.2.2:8080@n2"})
		next := with(app{name: "new", vip: "10.96.200.1", eps: localEPs})
		counts[n] = [2]int{s.sync(b, one).Written, s.sync(b, next).Written}
	}
	for _, n := range sizes {
		if c := counts[n]; c[0] != 4 || c[1] > 40 {
			t.Errorf("with %d Services: %d lines for changed endpoints, want 4 (a chain, the mark and two rules); %d for a new Service, want at most 40", n, c[0], c[1])
		}
	}
}

func TestRestartWritesOnlyDifferences(t *testing.T) {
	k := newFakeKernel()
	s := newStory(t, node())
	s.sync(k.backend(t, Options{}), many(50, 3))
	if stats := s.restart(k.backend(t, Options{})); !stats.Full || stats.Written != 0 {
		t.Errorf("nothing changed: %+v, want no statements", stats)
	}
	foreign := k.tables["iptables nat"]
	foreign["VIPKIT-S-GONE"] = []string{"-j RETURN"}
	name := "VIPKIT-" + hashed(letterCluster, "ns1/svc7:p80 tcp")
	foreign[name] = foreign[name][:2]
	stats := s.restart(k.backend(t, Options{}))
	equal(t, k.all(), s.fresh())
	if stats.Written != 7 {
		t.Errorf("one chain too many (2 lines), one with two rules too few (5): %d statements", stats.Written)
	}
}

// TestUpdatesLeaveNothing is fault #18: after each step the tables are those of a first Sync.
func TestUpdatesLeaveNothing(t *testing.T) {
	port := func(change func(*service.Port)) func(*service.Service) {
		return func(s *service.Service) { change(&s.Ports[0]) }
	}
	base := app{name: "web", vip: vips, eps: localEPs, changes: []func(*service.Service){external}}
	steps := []struct {
		name string
		step func(*app)
	}{
		{"a: port number", func(a *app) { a.changes = append(a.changes, port(func(p *service.Port) { p.Port = 81 })) }},
		{"b: port name", func(a *app) { a.changes = append(a.changes, port(func(p *service.Port) { p.Name = "web" })) }},
		{"c: node port", func(a *app) { a.changes = append(a.changes, port(func(p *service.Port) { p.NodePort = 30081 })) }},
		{"e: slice port", func(a *app) { a.eps = "10.200.1.1:9090@n1" }},
		{"f: external IP", func(a *app) { a.changes = append(a.changes, func(s *service.Service) { s.IPv4.ExternalIPs = nil }) }},
		{"g: type", func(a *app) { a.changes = nil }},
		{"h, d: protocols", func(a *app) { a.changes = []func(*service.Service){protocols(corev1.ProtocolUDP, corev1.ProtocolTCP)} }},
		{"d: one of two ports", func(a *app) { a.changes = []func(*service.Service){protocols(corev1.ProtocolUDP)} }},
	}
	k := newFakeKernel()
	b, s := k.backend(t, Options{}), newStory(t, node())
	s.sync(b, with(base))
	for _, st := range steps {
		t.Run("#18 "+st.name, func(t *testing.T) {
			st.step(&base)
			s.sync(b, with(base))
			equal(t, k.all(), s.fresh())
		})
	}
}

func TestSyncStopsBetweenFamilies(t *testing.T) {
	k := newFakeKernel()
	b, s := k.backend(t, Options{}), newStory(t, node())
	s.sync(b, with(app{name: "a", vip: vips, eps: localEPs}))
	err := b.Sync(canceled(t), plan.Full(s.plan))
	if err == nil || !strings.Contains(err.Error(), "context canceled") {
		t.Errorf("Sync = %v, want the context's error", err)
	}
}

// TestOneRefusedPortDoesNotKeepOthersBack has the kernel refuse one Service among many, in different commits.
func TestOneRefusedPortDoesNotKeepOthersBack(t *testing.T) {
	bad := app{name: "svc7", vip: manyVIP(7).String(), eps: "10.66.6.6:8080@n2"}
	denying := app{name: "svc7", vip: manyVIP(7).String(), changes: []func(*service.Service){func(s *service.Service) {
		s.IPv4.LoadBalancerIPs = []netip.Addr{addr("203.0.113.66")}
		s.IPv4.SourceRanges = []netip.Prefix{prefix("10.66.6.6/32")}
	}}}
	for name, next := range map[string]app{"in table nat": bad, "in table filter": denying} {
		for _, restarted := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restarted %t", name, restarted), func(t *testing.T) {
				k := newFakeKernel()
				b, s := k.backend(t, Options{}), newStory(t, node())
				s.sync(b, many(40, 2))
				before := s.plan
				k.refuse = "10.66.6.6"
				in := with(next)
				for i := range 40 {
					a := app{name: fmt.Sprint("new", i), vip: fmt.Sprintf("10.96.100.%d", i), eps: localEPs}
					if i%2 == 0 {
						a.eps = ""
					}
					in.Services[nameOf(a.name)], in.Endpoints[nameOf(a.name)] = with(a).Services[nameOf(a.name)], with(a).Endpoints[nameOf(a.name)]
				}
				if restarted {
					b, s.cursor = k.backend(t, Options{}), plan.Cursor{}
				}
				err := s.try(b, in)
				var partial *plan.PartialError
				if !errors.As(err, &partial) || len(partial.Ports) != 1 || !errors.Is(err, errFake) {
					t.Fatalf("Sync = %v, want one refused port", err)
				}
				for key := range partial.Ports {
					if restarted { // which of the old chains are the port's is not known
						break
					}
					equal(t, k.all(), (&story{tb: t, plan: s.plan.Hold(map[plan.Key]*plan.Port{key: before.Port(key)})}).fresh())
				}
				if changed, err := b.Check(t.Context()); len(changed) > 0 || err != nil {
					t.Errorf("Check = %q, %v", changed, err)
				}
				k.refuse = ""
				s.sync(b, plan.Input{})
				equal(t, k.all(), s.fresh())
			})
		}
	}
}
