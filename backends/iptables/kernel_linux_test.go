package iptables

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"golang.org/x/sys/unix"

	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// inNamespace moves the test into a network namespace of its own, with a backend of each
// variant that works there. The thread is never given back, so the namespace ends with it.
func inNamespace(tb testing.TB, v Variant, o Options) *Backend {
	tb.Helper()
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNET)
	if errors.Is(err, unix.EPERM) {
		err = errors.Join(errors.ErrUnsupported, err)
	}
	o.Variant = v
	b, errNew := New(o)
	if errNew != nil {
		tb.Fatal(errNew)
	}
	if err == nil {
		err = b.Probe(tb.Context())
	}
	if errors.Is(err, errors.ErrUnsupported) && os.Getenv("VIPKIT_REQUIRE_KERNEL") == "" {
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// again returns a Backend as a new process would make it.
func again(tb testing.TB, b *Backend) *Backend {
	tb.Helper()
	n, err := New(b.opts)
	if err != nil {
		tb.Fatal(err)
	}
	return n
}

func onBoth(t *testing.T, f func(t *testing.T, v Variant)) {
	t.Helper()
	for _, v := range []Variant{NFT, Legacy} {
		t.Run(string(v), func(t *testing.T) { f(t, v) })
	}
}

// run runs one of the programs of a variant.
func run(tb testing.TB, v Variant, input, program string, args ...string) string {
	tb.Helper()
	cmd := exec.Command("xtables-"+string(v)+"-multi", append([]string{program}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		tb.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return string(out)
}

// saved returns all rules, without the lines that have the time.
func saved(tb testing.TB, v Variant) string {
	tb.Helper()
	var b strings.Builder
	for _, program := range []string{"iptables-save", "ip6tables-save"} {
		for line := range strings.Lines(run(tb, v, "", program)) {
			if !strings.HasPrefix(line, "#") {
				b.WriteString(line)
			}
		}
	}
	return b.String()
}

const foreignRules = `*nat
:OTHER - [0:0]
-A OTHER -s 192.0.2.1/32 -m comment --comment "not VIPKIT-SERVICES" -j ACCEPT
-A PREROUTING -j OTHER
COMMIT
*filter
:VIPKITTEN-A - [0:0]
-A FORWARD -j VIPKITTEN-A
-A INPUT -i lo -j ACCEPT
COMMIT
`

// TestKernelKeepsWhatWasRestored looks whether what the kernel says of our chains is what
// was restored, in spite of its own way to print rules.
func TestKernelKeepsWhatWasRestored(t *testing.T) {
	onBoth(t, func(t *testing.T, v Variant) {
		t.Helper()
		b := inNamespace(t, v, Options{DropInvalid: true})
		run(t, v, foreignRules, "iptables-restore", "--noflush")
		foreign := saved(t, v)
		s := newStory(t, node())
		s.sync(b, everything())
		if changed, err := b.Check(t.Context()); len(changed) > 0 {
			t.Errorf("Check after Sync: %q, %v", changed, err)
		}
		if v == NFT && b.generation == 0 {
			t.Error("the commits of a Sync are not those that the kernel counted")
		}
		if stats := s.restart(again(t, b)); stats.Written != 0 {
			t.Errorf("a restart without a change restores %d lines", stats.Written)
		}
		s.sync(b, many(300, 2))
		s.restart(again(t, b))
		s.sync(b, without("a", "b", "c"))
		if changed, err := b.Check(t.Context()); len(changed) > 0 {
			t.Errorf("Check after changes: %q, %v", changed, err)
		}
		for range 2 {
			if err := again(t, b).Cleanup(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		// A table of no rule, which the programs made to be read, is not ours to delete.
		equal(t, withoutEmpty(saved(t, v)), withoutEmpty(foreign))
	})
}

// withoutEmpty leaves out tables in which there is nothing but policies.
func withoutEmpty(text string) string {
	var b strings.Builder
	for part := range strings.SplitAfterSeq(text, "COMMIT\n") {
		if strings.Contains(part, "-A ") || strings.Contains(part, " - [") {
			b.WriteString(part)
		}
	}
	return b.String()
}

func TestKernelFlushedBySomebodyElse(t *testing.T) {
	flush := []struct {
		name string
		args []string
	}{
		{"#65 a: table flushed", []string{"-t", "nat", "-F"}},
		{"#65 b: one chain emptied", []string{"-t", "nat", "-F", "VIPKIT-SERVICES"}},
		{"#65 c: one rule removed", []string{"-t", "nat", "-D", "VIPKIT-POSTROUTING", "1"}},
		{"#65 d: one jump removed", []string{"-t", "filter", "-D", "FORWARD", "1"}},
	}
	onBoth(t, func(t *testing.T, v Variant) {
		t.Helper()
		b := inNamespace(t, v, Options{})
		s := newStory(t, node())
		s.sync(b, everything())
		want := saved(t, v)
		for _, f := range flush {
			t.Log(f.name)
			run(t, v, "", "iptables", f.args...)
			if changed, err := b.Check(t.Context()); len(changed) == 0 || err != nil {
				t.Fatalf("%s: Check = %q, %v", f.name, changed, err)
			}
			s.restart(b)
			if got := saved(t, v); len(got) != len(want) {
				t.Fatalf("%s: after the repair\n%s\nwant\n%s", f.name, got, want)
			}
			if changed, err := b.Check(t.Context()); len(changed) > 0 {
				t.Fatalf("%s: Check after the repair: %v", f.name, err)
			}
		}
	})
}

// TestKernelRuleReplaced replaces rules that are not the first of their chain.
func TestKernelRuleReplaced(t *testing.T) {
	onBoth(t, func(t *testing.T, v Variant) {
		t.Helper()
		b := inNamespace(t, v, Options{})
		s := newStory(t, node())
		s.sync(b, everything())
		want := saved(t, v)
		pool := "VIPKIT-" + hashed(letterCluster, "ns1/a:p80 tcp")
		for _, args := range [][]string{
			{"-t", "nat", "-R", pool, "2", "-p", "tcp", "-j", "DNAT", "--to-destination", "10.66.66.66:6666"},
			{"-t", "filter", "-R", "VIPKIT-OUTPUT", "2", "-j", "ACCEPT"},
		} {
			for _, next := range []*Backend{b, again(t, b)} {
				run(t, v, "", "iptables", args...)
				if next == b {
					if changed, err := b.Check(t.Context()); len(changed) == 0 || err != nil {
						t.Errorf("fault F08 %v: Check = %q, %v", args, changed, err)
					}
				}
				s.restart(next)
				if got := saved(t, v); strings.Contains(got, "10.66.66.66") || len(got) != len(want) {
					t.Errorf("fault F08 %v: after a full Sync\n%s\nwant\n%s", args, got, want)
				}
			}
		}
	})
}

// TestKernelPrintsPortsAsWeDo has trees that are split by ports, and a pool of many.
func TestKernelPrintsPortsAsWeDo(t *testing.T) {
	onBoth(t, func(t *testing.T, v Variant) {
		t.Helper()
		b := inNamespace(t, v, Options{})
		ports := func(s *service.Service) {
			s.Ports = nil
			for i := range uint16(64) {
				s.Ports = append(s.Ports, service.Port{Name: fmt.Sprint("p", i), Protocol: corev1.ProtocolTCP, Port: 1 + 1023*i, NodePort: 2 + 1023*i})
			}
		}
		var eps strings.Builder
		for i := range 100 {
			fmt.Fprintf(&eps, "10.200.1.%d:8080@n1 ", i+1)
		}
		s := newStory(t, node())
		s.sync(b, with(app{name: "a", vip: vips, eps: localEPs, changes: []func(*service.Service){ports}}, app{name: "b", vip: "10.96.0.51", eps: eps.String()}))
		if stats := s.restart(again(t, b)); stats.Written > 0 {
			t.Errorf("fault F08 a restart without a change restores %d lines", stats.Written)
		}
	})
}

// TestKernelRefusesToDeleteChainsInUse is fault #77.
func TestKernelRefusesToDeleteChainsInUse(t *testing.T) {
	onBoth(t, func(t *testing.T, v Variant) {
		t.Helper()
		b := inNamespace(t, v, Options{})
		s := newStory(t, node())
		s.sync(b, everything())
		run(t, v, "", "iptables", "-t", "nat", "-A", "OUTPUT", "-s", "192.0.2.1", "-j", "VIPKIT-SERVICES")
		s.restart(again(t, b))
		err := again(t, b).Cleanup(t.Context())
		if err == nil || !strings.Contains(err.Error(), "VIPKIT-SERVICES is in use by a rule of OUTPUT") {
			t.Errorf("Cleanup = %v", err)
		}
		if left := saved(t, v); strings.Count(left, "VIPKIT") != 2 {
			t.Errorf("left after Cleanup:\n%s", left)
		}
	})
}

// TestKernelLocalhostNodePorts writes the sysctl of a namespace.
func TestKernelLocalhostNodePorts(t *testing.T) {
	onBoth(t, func(t *testing.T, v Variant) {
		t.Helper()
		b := inNamespace(t, v, Options{LocalhostNodePorts: true})
		cfg := node()
		cfg.NodePortAddresses.Localhost = true
		if err := b.kernel.setSysctl(routeLocalnet, "0"); err != nil {
			t.Skipf("sysctls cannot be written here: %v", err)
		}
		newStory(t, cfg).sync(b, everything())
		if value, err := b.kernel.sysctl(routeLocalnet); value != "1" {
			t.Errorf("route_localnet is %q, %v", value, err)
		}
		if err := again(t, b).Cleanup(t.Context()); err != nil {
			t.Fatal(err)
		}
		if value, err := b.kernel.sysctl(routeLocalnet); value != "0" {
			t.Errorf("after Cleanup route_localnet is %q, %v", value, err)
		}
	})
}

func TestKernelCleanupOfTheOtherVariant(t *testing.T) {
	b := inNamespace(t, Legacy, Options{})
	newStory(t, node()).sync(b, everything())
	other, err := New(Options{Variant: NFT})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Cleanup(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := saved(t, Legacy); strings.Contains(left, "VIPKIT") {
		t.Errorf("left:\n%s", left)
	}
}

func TestKernelFamilies(t *testing.T) {
	b := inNamespace(t, NFT, Options{Families: []corev1.IPFamily{corev1.IPv6Protocol}})
	newStory(t, node()).sync(b, everything())
	text := run(t, NFT, "", "iptables-save")
	if strings.Contains(text, "VIPKIT") || !strings.Contains(run(t, NFT, "", "ip6tables-save"), "VIPKIT-SERVICES") {
		t.Errorf("IPv4 rules:\n%s", text)
	}
}

// TestKernelTakesDeepTrees writes frontends that differ in one bit each: the kernel refuses rules with too many chains
// below each other, and with them the whole table.
func TestKernelTakesDeepTrees(t *testing.T) {
	onBoth(t, func(t *testing.T, v Variant) {
		t.Helper()
		newStory(t, node()).sync(inNamespace(t, v, Options{}), caterpillar())
	})
}

// TestKernelRefusesOnePort gives one Service a source range that iptables-restore does not take.
func TestKernelRefusesOnePort(t *testing.T) {
	onBoth(t, func(t *testing.T, v Variant) {
		t.Helper()
		b := inNamespace(t, v, Options{})
		s := newStory(t, node())
		s.sync(b, many(30, 2))
		in := many(40, 1)
		bad := app{name: "bad", vip: "10.96.50.1", eps: localEPs, changes: []func(*service.Service){external, restricted("2001:db8::/64")}}
		for name, svc := range with(bad).Services {
			in.Services[name], in.Endpoints[name] = svc, endpointsOf(svc, bad.eps)
		}
		for range 2 {
			err := s.try(b, in)
			var partial *plan.PartialError
			if !errors.As(err, &partial) || len(partial.Ports) != 1 || !strings.Contains(err.Error(), "ns1/bad:p80") {
				t.Fatalf("Sync = %v, want one refused port", err)
			}
			if rules := saved(t, v); !strings.Contains(rules, "-d 10.96.0.39/32") || strings.Contains(rules, "10.96.50.1/32") {
				t.Errorf("the others are not written, or a part of the refused port is:\n%s", rules)
			}
			in, s.cursor = plan.Input{}, plan.Cursor{} // a full Sync
		}
		bad.changes = nil
		s.sync(b, with(bad))
		if stats := s.restart(again(t, b)); stats.Written > 0 {
			t.Errorf("a restart restores %d lines", stats.Written)
		}
	})
}
