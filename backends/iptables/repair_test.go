package iptables

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

func canceled(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// damages are what somebody else may do to the tables.
func damages() map[string]func(k *fakeKernel) {
	natTable := func(k *fakeKernel) map[string][]string { return k.tables["iptables nat"] }
	return map[string]func(k *fakeKernel){
		"#65 a: everything flushed": func(k *fakeKernel) { k.tables = newFakeKernel().tables },
		"#65 b: our chains emptied": func(k *fakeKernel) {
			for name := range natTable(k) {
				natTable(k)[name] = nil
			}
		},
		"#65 c: one rule removed": func(k *fakeKernel) {
			name := "VIPKIT-" + hashed(letterCluster, "ns1/a:p80 tcp")
			natTable(k)[name] = natTable(k)[name][1:]
		},
		"fault F08 a rule that is not the first replaced": func(k *fakeKernel) {
			rules := natTable(k)["VIPKIT-"+hashed(letterCluster, "ns1/a:p80 tcp")]
			rules[1] = "-p tcp -j DNAT --to-destination 10.66.66.66:6666"
		},
		"fault F08 two rules swapped": func(k *fakeKernel) {
			rules := k.tables["iptables filter"]["VIPKIT-OUTPUT"]
			first, rest, _ := strings.Cut(rules[0], `" `)
			rules[0], rules[1] = first+`" `+rules[1], rest
		},
		"fault F08 the first rule replaced, but for its comment": func(k *fakeKernel) {
			rules := natTable(k)["VIPKIT-SERVICES"]
			rules[0] = strings.Replace(rules[0], "VIPKIT-IPS", "VIPKIT-PORTS", 1)
		},
		"fault F08 a match added": func(k *fakeKernel) {
			rules := natTable(k)["VIPKIT-POSTROUTING"]
			rules[1] += " -m socket"
		},
		"#65 d: one jump removed": func(k *fakeKernel) { natTable(k)["PREROUTING"] = nil },
		"a jump twice": func(k *fakeKernel) {
			natTable(k)["PREROUTING"] = slices.Repeat(natTable(k)["PREROUTING"], 2)
		},
		"F29 canary removed": func(k *fakeKernel) { delete(natTable(k), "VIPKIT-CANARY") },
		"a chain added":      func(k *fakeKernel) { natTable(k)["VIPKIT-MINE"] = []string{"-j RETURN"} },
	}
}

func TestCheckFindsWhatSomebodyElseDid(t *testing.T) {
	for name, damage := range damages() {
		t.Run(name, func(t *testing.T) {
			k := newFakeKernel()
			b, s := k.backend(t, Options{}), newStory(t, node())
			if changed, err := b.Check(t.Context()); len(changed) > 0 || err != nil {
				t.Errorf("Check before the first Sync = %q, %v", changed, err)
			}
			s.sync(b, with(app{name: "a", vip: vips, eps: localEPs}))
			if changed, err := b.Check(t.Context()); len(changed) > 0 {
				t.Fatalf("Check finds a change after Sync: %q, %v", changed, err)
			}
			damage(k)
			k.number++
			if changed, err := b.Check(t.Context()); len(changed) == 0 || err != nil {
				t.Errorf("Check = %q, %v, want what was found", changed, err)
			}
			// An unrelated change must not fail for ever.
			if err := s.try(b, with(app{name: "b", vip: "10.96.0.51", eps: localEPs})); err != nil {
				s.sync(b, plan.Input{})
			}
			s.restart(b)
			equal(t, k.all(), s.fresh())
			if changed, err := b.Check(t.Context()); len(changed) > 0 {
				t.Errorf("Check finds a change after the repair: %q, %v", changed, err)
			}
		})
	}
}

func TestCheckReadsNothingIfNobodyCommitted(t *testing.T) {
	k := newFakeKernel()
	b, s := k.backend(t, Options{}), newStory(t, node())
	s.sync(b, with(app{name: "a", vip: vips, eps: localEPs}))
	s.sync(b, with(app{name: "a", vip: vips, eps: remoteEPs}))
	saves := k.saves
	for range 3 {
		if changed, err := b.Check(t.Context()); len(changed) > 0 || k.saves != saves {
			t.Fatalf("Check = %q, %v after %d reads, want nothing after none", changed, err, k.saves-saves)
		}
	}
	k.number++ // somebody wrote another table
	for range 2 {
		if changed, err := b.Check(t.Context()); len(changed) > 0 || k.saves != saves+4 {
			t.Fatalf("Check = %q, %v after %d reads, want nothing after four", changed, err, k.saves-saves)
		}
	}
}

// TestAnyReplacedRuleIsSeen replaces each rule of ours, one at a time, and starts anew.
func TestAnyReplacedRuleIsSeen(t *testing.T) {
	k := newFakeKernel()
	b, s := k.backend(t, Options{}), newStory(t, node())
	s.sync(b, everything())
	want := k.all()
	for name, chains := range k.tables {
		for chain, rules := range chains {
			for i := range rules {
				if !strings.HasPrefix(chain, "VIPKIT-") {
					continue
				}
				k.tables[name][chain] = slices.Clone(rules)
				k.tables[name][chain][i] = "-s 192.0.2.99/32 -j RETURN"
				k.number++
				if changed, err := b.Check(t.Context()); len(changed) == 0 || err != nil {
					t.Errorf("fault F08 rule %d of %s %s: Check = %q, %v", i, name, chain, changed, err)
				}
				b = k.backend(t, Options{})
				s.restart(b)
				equal(t, k.all(), want)
			}
		}
	}
}

// TestRulesPrintedInAnotherWay is about a version of the programs that nobody has seen yet.
func TestRulesPrintedInAnotherWay(t *testing.T) {
	k := newFakeKernel()
	k.print = func(rule string) string { return strings.Replace(rule, "--ctstate NEW", "--ctstate new", 1) }
	b, s := k.backend(t, Options{}), newStory(t, node())
	s.sync(b, with(app{name: "a", vip: vips, eps: localEPs}))
	k.number++
	if changed, _ := b.Check(t.Context()); len(changed) == 0 {
		t.Error("Check finds nothing, and nothing of what is printed is known")
	}
	s.restart(b)
	for range 2 {
		k.number++
		if changed, err := b.Check(t.Context()); len(changed) > 0 || err == nil {
			t.Errorf("Check = %q, %v, want no change and that only numbers were compared", changed, err)
		}
		if stats := s.restart(b); stats.Written > 0 {
			t.Errorf("a full Sync restores %d lines that are right", stats.Written)
		}
	}
	natTable := k.tables["iptables nat"]
	natTable["VIPKIT-SERVICES"] = natTable["VIPKIT-SERVICES"][1:]
	k.number++
	if changed, _ := b.Check(t.Context()); len(changed) == 0 {
		t.Error("Check finds nothing, and a rule is gone")
	}
}

// TestCheckThatCannotRead is fault F15 in this backend: what cannot be read was not changed.
func TestCheckThatCannotRead(t *testing.T) {
	k := newFakeKernel()
	b, s := k.backend(t, Options{}), newStory(t, node())
	s.sync(b, with(app{name: "a", vip: vips, eps: localEPs}))
	k.number++
	k.failSave = errors.New("out of memory")
	if changed, err := b.Check(t.Context()); len(changed) > 0 || !errors.Is(err, k.failSave) {
		t.Errorf("fault F15 Check = %q, %v, want no change and why", changed, err)
	}
	k.failSave = nil
	natTable := k.tables["iptables nat"]
	natTable["VIPKIT-SERVICES"] = nil
	if changed, _ := b.Check(t.Context()); len(changed) == 0 {
		t.Error("fault F15 Check that could not read took what is there for right")
	}
}

// TestHeldPortYieldsItsFrontends is fault F05 in this backend.
func TestHeldPortYieldsItsFrontends(t *testing.T) {
	k := newFakeKernel()
	k.failTry = func(text string) bool { return strings.Contains(text, "recent") }
	shared := func(s *service.Service) { s.IPv4.ExternalIPs = []netip.Addr{addr("203.0.113.50")} }
	b, s := k.backend(t, Options{}), newStory(t, node())
	other := app{name: "b", vip: "10.96.0.51", eps: remoteEPs}
	s.sync(b, with(app{name: "a", vip: vips, eps: localEPs, changes: []func(*service.Service){shared}}, other))
	other.changes = []func(*service.Service){shared}
	err := s.try(b, with(app{name: "a", vip: vips, eps: localEPs, changes: []func(*service.Service){affine}}, other))
	if partial := (*plan.PartialError)(nil); !errors.As(err, &partial) {
		t.Fatalf("fault F05 Sync = %v, want a PartialError", err)
	}
	s.sync(b, with(app{name: "a", vip: vips, eps: localEPs + " " + remoteEPs}))
	equal(t, k.all(), s.fresh())
}

func TestJumpsComeFirstAgain(t *testing.T) {
	k := newFakeKernel()
	b, s := k.backend(t, Options{}), newStory(t, node())
	s.sync(b, with(app{name: "a", vip: vips, eps: localEPs}))
	jump := k.tables["iptables nat"]["PREROUTING"][0]
	k.tables["iptables nat"]["PREROUTING"] = []string{"-j ACCEPT", jump, "-s 192.0.2.1/32 -j DROP"}
	k.number++
	if changed, err := b.Check(t.Context()); len(changed) > 0 {
		t.Errorf("Check finds a change though the jump is there: %q, %v", changed, err)
	}
	s.restart(b)
	want := []string{jump, "-j ACCEPT", "-s 192.0.2.1/32 -j DROP"}
	if got := k.tables["iptables nat"]["PREROUTING"]; !slices.Equal(got, want) {
		t.Errorf("PREROUTING has %q, want %q", got, want)
	}
}

func TestCleanup(t *testing.T) {
	t.Run("#77 foreign rules stay, chains that call each other go", func(t *testing.T) {
		k := newFakeKernel()
		k.tables["iptables nat"]["PREROUTING"] = []string{"-s 192.0.2.1/32 -j ACCEPT"}
		k.tables["iptables nat"]["VIPKITTEN-A"] = []string{"-j RETURN"}
		want := k.all()
		newStory(t, node()).sync(k.backend(t, Options{}), many(50, 2))
		b := k.backend(t, Options{}) // a new process
		for range 2 {
			if err := b.Cleanup(t.Context()); err != nil {
				t.Fatal(err)
			}
			equal(t, k.all(), want)
		}
	})
	t.Run("#77 a foreign rule names a chain of ours", func(t *testing.T) {
		k := newFakeKernel()
		newStory(t, node()).sync(k.backend(t, Options{}), many(2, 2))
		k.tables["iptables nat"]["POSTROUTING"] = append(k.tables["iptables nat"]["POSTROUTING"], "-s 192.0.2.1/32 -j VIPKIT-SERVICES")
		err := k.backend(t, Options{}).Cleanup(t.Context())
		if err == nil || !strings.Contains(err.Error(), "VIPKIT-SERVICES is in use by a rule of POSTROUTING: -s 192.0.2.1/32") {
			t.Errorf("Cleanup = %v, want the foreign rule", err)
		}
		var left []string
		for _, chains := range k.tables {
			for name := range maps.Keys(chains) {
				if strings.HasPrefix(name, "VIPKIT") {
					left = append(left, name)
				}
			}
		}
		if !slices.Equal(left, []string{"VIPKIT-SERVICES"}) || len(k.tables["iptables nat"]["VIPKIT-SERVICES"]) > 0 {
			t.Errorf("chains left: %q", left)
		}
	})
}

// TestStaleChainInUse is fault #77 in Sync: a chain that goes is named by a foreign rule.
func TestStaleChainInUse(t *testing.T) {
	k := newFakeKernel()
	b, s := k.backend(t, Options{}), newStory(t, node())
	s.sync(b, with(app{name: "a", vip: vips, eps: localEPs}))
	name := "VIPKIT-" + hashed(letterCluster, "ns1/a:p80 tcp")
	k.tables["iptables nat"]["OUTPUT"] = append(k.tables["iptables nat"]["OUTPUT"], "-s 192.0.2.1/32 -j "+name)
	k.number++
	if stats := s.sync(b, without("a")); !stats.Full {
		t.Error("the tables were not read after the kernel refused to delete a chain in use")
	}
	if rules, ok := k.tables["iptables nat"][name]; !ok || len(rules) > 0 {
		t.Errorf("the chain in use has %q, want it empty", rules)
	}
	s.sync(b, with(app{name: "b", vip: vips, eps: localEPs}))
	if changed, err := b.Check(t.Context()); len(changed) > 0 {
		t.Errorf("Check: %q, %v", changed, err)
	}
}

func TestLocalhostNodePorts(t *testing.T) {
	cfg := node()
	cfg.NodePortAddresses = plan.NodePortSelector{Primary: true, Localhost: true}
	nodePort := app{name: "a", vip: vips, eps: localEPs, changes: []func(*service.Service){external}}
	on := Options{LocalhostNodePorts: true}

	t.Run("F22 set, guarded, and undone by Cleanup", func(t *testing.T) {
		k := newFakeKernel()
		s := newStory(t, cfg)
		s.sync(k.backend(t, on), with(nodePort))
		if k.sysctls[routeLocalnet] != "1" || k.log[len(k.log)-1] == routeLocalnet+"=1" {
			t.Errorf("route_localnet is %s; log %q: want 1, before IPv6", k.sysctls[routeLocalnet], k.log)
		}
		if i := slices.Index(k.log, routeLocalnet+"=1"); i < 1 || !strings.HasPrefix(k.log[i-1], "commit iptables filter") {
			t.Errorf("log %q: want the guard before the sysctl", k.log)
		}
		compareLoopback(t, s.plan, "10.200.1.1:8080 masq=true, 10.200.1.2:8080 masq=true")
		if err := k.backend(t, Options{}).Cleanup(t.Context()); err != nil || k.sysctls[routeLocalnet] != "0" {
			t.Errorf("Cleanup = %v, route_localnet is %s", err, k.sysctls[routeLocalnet])
		}
	})
	t.Run("F21 not set where loopback does not serve", func(t *testing.T) {
		k := newFakeKernel()
		newStory(t, node()).sync(k.backend(t, on), with(nodePort))
		newStory(t, cfg).sync(k.backend(t, Options{Name: "OTHER"}), with(nodePort))
		if k.sysctls[routeLocalnet] != "0" {
			t.Error("route_localnet was set")
		}
	})
	t.Run("left alone if it was set before", func(t *testing.T) {
		k := newFakeKernel()
		k.sysctls[routeLocalnet] = "1"
		b := k.backend(t, on)
		newStory(t, cfg).sync(b, with(nodePort))
		if strings.Contains(k.all(), "VIPKIT-LOCALNET") {
			t.Error("guard without need")
		}
		if err := b.Cleanup(t.Context()); err != nil || k.sysctls[routeLocalnet] != "1" {
			t.Errorf("Cleanup = %v, route_localnet is %s", err, k.sysctls[routeLocalnet])
		}
	})
	t.Run("undone when switched off", func(t *testing.T) {
		k := newFakeKernel()
		s := newStory(t, cfg)
		s.sync(k.backend(t, on), with(nodePort))
		s.restart(k.backend(t, on))
		if k.sysctls[routeLocalnet] != "1" || !strings.Contains(k.all(), "VIPKIT-LOCALNET") {
			t.Error("a restart closed loopback")
		}
		s.restart(k.backend(t, Options{}))
		if k.sysctls[routeLocalnet] != "0" {
			t.Error("route_localnet is still set")
		}
		equal(t, k.all(), s.fresh())
	})
	t.Run("F30 the sysctl cannot be written", func(t *testing.T) {
		k := newFakeKernel()
		delete(k.sysctls, routeLocalnet)
		b := k.backend(t, on)
		if err := b.Probe(t.Context()); !errors.Is(err, errors.ErrUnsupported) || !errors.Is(err, errNoSysctl) {
			t.Errorf("Probe = %v", err)
		}
		if err := newStory(t, cfg).try(b, with(nodePort)); !errors.Is(err, errNoSysctl) {
			t.Errorf("Sync = %v", err)
		}
	})
}

// compareLoopback sends a packet of the node to a NodePort on 127.0.0.1.
func compareLoopback(t *testing.T, p *plan.Plan, want string) {
	t.Helper()
	set := parseRules(t, render(t, p, Options{LocalhostNodePorts: true}), "iptables")
	packet := plan.Packet{Source: addr("127.0.0.1"), Destination: addrPort("127.0.0.1:30080"), Protocol: corev1.ProtocolTCP}
	if got := follow(set, p, packet); !strings.HasPrefix(got, want) {
		t.Errorf("a packet to 127.0.0.1:30080: %s, want %s", got, want)
	}
	stranger := newTraveller(p, plan.Packet{Source: addr("198.51.100.4"), Destination: addrPort("127.0.0.1:22"), Interface: "eth0"}, 0)
	if set.travel(stranger, false); stranger.verdict != "DROP" {
		t.Errorf("a packet of another host to 127.0.0.1: %q, want DROP", stranger.verdict)
	}
}
