package main

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

// tables returns what our tables say, without counters and in an order that does not
// depend on when it was added. In which slot of its pool an endpoint is depends on the
// past and does not matter, and chains without rules are left over until the kernel
// lets them be deleted.
func tables(t *testing.T, lab *netlab.Lab) string {
	t.Helper()
	slot := regexp.MustCompile(`( \. \d+ \. )\d+( : \d)`)
	empty := regexp.MustCompile(`\tchain affinity-\S+ \{\n\t\}\n`)
	var lines []string
	for _, family := range []string{"ip", "ip6"} {
		text := empty.ReplaceAllString(nft(t, lab, "-s", "list", "table", family, "vipkit"), "")
		for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ',' }) {
			line = strings.TrimPrefix(strings.TrimSpace(line), "elements = {")
			if line = strings.Trim(line, " \t{}"); line != "" {
				lines = append(lines, slot.ReplaceAllString(line, "${1}slot$2"))
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// fresh returns the tables that an empty node gets from a folder.
func fresh(t *testing.T, dir string) string {
	t.Helper()
	lab := newLab(t)
	if code, r := once(t, lab, args(dir)...); code != exitOK {
		t.Fatalf("fresh node: code %d, round %+v", code, r)
	}
	return tables(t, lab)
}

func TestRepair(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	write(t, dir, "api.yaml", service("api", 11, "", podTwo))
	start(t, lab, args(dir, "-check", "50ms")...)
	expect(t, lab, clusterIP(10), podOne)
	want := fresh(t, dir)
	conn, _, err := lab.Open(netlab.Probe{
		From: "pod", Destination: netip.MustParseAddrPort(clusterIP(10)), Protocol: corev1.ProtocolTCP,
	})
	if err != nil || conn == nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		do   [][]string
	}{
		{"table flushed", [][]string{{"flush", "table", "ip", "vipkit"}}},
		{"table deleted", [][]string{{"delete", "table", "ip", "vipkit"}}},
		{"both tables deleted", [][]string{{"delete", "table", "ip", "vipkit"}, {"delete", "table", "ip6", "vipkit"}}},
		{"everything flushed", [][]string{{"flush", "ruleset"}}},
		{"one frontend deleted", [][]string{{"delete", "element", "ip", "vipkit", "service-ips", "{", clusterElement(10), "}"}}},
		{"map flushed", [][]string{{"flush", "map", "ip", "vipkit", "service-ips"}}},
	}
	for _, tt := range tests {
		t.Run("#65 "+tt.name, func(t *testing.T) {
			for _, command := range tt.do {
				nft(t, lab, command...)
			}
			eventually(t, func() bool { return hasTables(t, lab) && tables(t, lab) == want },
				func() string { return "the tables are not what they were" })
			if err := conn.Ping(patience); err != nil {
				t.Errorf("the open connection: %v", err)
			}
		})
	}
}

func clusterElement(n int) string { return fmt.Sprintf("10.96.0.%d . tcp . 80", n) }

func hasTables(t *testing.T, lab *netlab.Lab) bool {
	t.Helper()
	list := nft(t, lab, "list", "tables")
	return strings.Contains(list, "table ip vipkit\n") && strings.Contains(list, "table ip6 vipkit\n")
}

// failingNFT puts a program nft in front of the real one that fails at its n-th call that is
// not only a question, before or after the real one did its work. The file it returns exists when that has happened.
func failingNFT(t *testing.T, n int, after bool) (happened string) {
	t.Helper()
	dir := t.TempDir()
	nft, err := exec.LookPath("nft")
	if err != nil {
		t.Skip(err)
	}
	script := fmt.Sprintf(`#!/bin/bash
case " $* " in *" -c "*) exec %[4]s "$@" ;; esac
echo >>%[1]s/calls
if [ "$(wc -l <%[1]s/calls)" = %[2]d ]; then
	touch %[1]s/happened
	if %[3]t; then %[4]s "$@"; fi
	echo "Error: told to fail" >&2
	exit 1
fi
exec %[4]s "$@"
`, dir, n, after, nft)
	if err := os.WriteFile(filepath.Join(dir, "nft"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return filepath.Join(dir, "happened")
}

// TestFailAtStep lets each call of nft fail once, in a round that changes several
// Services, and wants one good round to lead to what a fresh node gets.
func TestFailAtStep(t *testing.T) {
	before, after := t.TempDir(), t.TempDir()
	write(t, before, "web.yaml", service("web", 10, "", podOne, podTwo))
	write(t, before, "api.yaml", service("api", 11, "  sessionAffinity: ClientIP", podTwo))
	write(t, after, "web.yaml", service("web", 10, "", podThree))
	write(t, after, "new.yaml", service("new", 12, "", podOne))
	want := fresh(t, after)
	lab := newLab(t)
	path := os.Getenv("PATH")
	for n := 1; ; n++ {
		for _, late := range []bool{false, true} {
			t.Setenv("PATH", path)
			if code, _ := once(t, lab, args(before)...); code != exitOK {
				t.Fatalf("code %d", code)
			}
			happened := failingNFT(t, n, late)
			once(t, lab, args(after)...)
			t.Setenv("PATH", path)
			if _, err := os.Stat(happened); err != nil {
				if n == 1 {
					t.Fatal("nft was not called")
				}
				return
			}
			if code, _ := once(t, lab, args(after)...); code != exitOK {
				t.Fatalf("call %d failed (late %t): code %d afterwards", n, late, code)
			}
			if diff := cmp.Diff(want, tables(t, lab)); diff != "" {
				t.Errorf("call %d failed (late %t): tables (-want +got):\n%s", n, late, diff)
			}
		}
	}
}

// kills is how often TestKill kills the agent.
func kills(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("VIPKIT_KILLS"))
	if err != nil {
		return 5
	}
	return n
}

// TestKill kills the agent at any time while Services change. Each start writes only what
// differs, and an open connection to an endpoint that stays never breaks.
func TestKill(t *testing.T) {
	const services = 30
	lab, dir := newLab(t), t.TempDir()
	rng := rand.New(rand.NewPCG(1, 2))
	change := func(n int) {
		pods := []string{podOne, podTwo, podThree, elsewhereIP}
		rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
		write(t, dir, fmt.Sprintf("s%d.yaml", n), service(fmt.Sprint("s", n), n, "", pods[:rng.IntN(len(pods)+1)]...))
	}
	write(t, dir, "stays.yaml", service("stays", 200, "", podOne))
	for n := range services {
		change(n + 1)
	}
	code, cold := once(t, lab, args(dir)...)
	if code != exitOK {
		t.Fatalf("code %d", code)
	}
	conn, _, err := lab.Open(netlab.Probe{
		From: "pod", Destination: netip.MustParseAddrPort(clusterIP(200)), Protocol: corev1.ProtocolTCP,
	})
	if err != nil || conn == nil {
		t.Fatal(err)
	}
	most := 0
	for i := range kills(t) {
		c := start(t, lab, args(dir)...)
		r := c.next(t)
		most = max(most, r.statements)
		if !r.full || r.failed > 0 {
			t.Errorf("start %d: round %+v", i, r)
		}
		for range 3 {
			change(rng.IntN(services) + 1)
		}
		// Somewhere between "not seen yet" and "long done".
		<-time.After(time.Duration(rng.IntN(600)) * time.Millisecond)
		c.signal(t, syscall.SIGKILL)
		<-c.ended
		if err := conn.Ping(patience); err != nil {
			t.Fatalf("kill %d: the open connection: %v", i, err)
		}
	}
	// Three Services, each with at most four endpoints before and after in two protocols.
	const limit = 3 * 2 * 2 * (2*4 + 2)
	if most > limit || cold.statements < 5*limit {
		t.Errorf("a restart wrote up to %d statements, want at most %d (a cold start wrote %d)", most, limit, cold.statements)
	}
	if code, _ := once(t, lab, args(dir)...); code != exitOK {
		t.Errorf("code %d", code)
	}
	if code, r := once(t, lab, args(dir)...); code != exitOK || r.statements != 0 {
		t.Errorf("nothing differs: code %d, round %+v", code, r)
	}
	if diff := cmp.Diff(fresh(t, dir), tables(t, lab)); diff != "" {
		t.Errorf("tables after all kills (-want +got):\n%s", diff)
	}
	t.Logf("%d kills, a cold start wrote %d statements, a restart at most %d", kills(t), cold.statements, most)
}

// TestStaleFlowsAfterRestart restarts without a change, which leaves a UDP flow alone, and
// lets its endpoint go while no agent runs: the client, which uses one socket, must not
// be sent there for ever.
func TestStaleFlowsAfterRestart(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	flows := func() string {
		var out []byte
		onNode(t, lab, func() (err error) {
			out, err = exec.Command("conntrack", "-L", "-p", "udp", "--orig-dst", "10.96.0.10").Output()
			return err
		})
		return string(out)
	}
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	if code, _ := once(t, lab, args(dir)...); code != exitOK {
		t.Fatalf("code %d", code)
	}
	conn, _, err := lab.Open(netlab.Probe{
		From: "pod", Destination: netip.MustParseAddrPort(clusterIP(10)), Protocol: corev1.ProtocolUDP,
	})
	if err != nil || conn == nil {
		t.Fatal(err)
	}
	if got := flows(); !strings.Contains(got, "src="+podOne+" ") {
		t.Fatalf("flows before: %s", got)
	}
	if code, _ := once(t, lab, args(dir)...); code != exitOK {
		t.Fatalf("code %d", code)
	}
	if got := flows(); !strings.Contains(got, "src="+podOne+" ") {
		t.Errorf("#33 a restart removed a healthy flow: %s", got)
	}
	write(t, dir, "web.yaml", service("web", 10, "", podTwo))
	if code, _ := once(t, lab, args(dir)...); code != exitOK {
		t.Fatalf("code %d", code)
	}
	if err := conn.Ping(patience); err != nil {
		t.Fatalf("ping: %v", err)
	}
	if got := flows(); strings.Contains(got, "src="+podOne+" ") || !strings.Contains(got, "src="+podTwo+" ") {
		t.Errorf("flows after the endpoint went: %s", got)
	}
}

// TestLeastPrivilege runs the agent with nothing but what the manifest gives it.
func TestLeastPrivilege(t *testing.T) {
	if _, err := exec.LookPath("setpriv"); err != nil {
		t.Skip(err)
	}
	lab, dir := newLab(t), t.TempDir()
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	const caps = "-all,+net_admin"
	run := func(more ...string) int {
		command := append([]string{"setpriv", "--bounding-set", caps, "--inh-caps", caps, "--no-new-privs", os.Args[0]}, args(dir, more...)...)
		return startCommand(t, lab, command...).wait(t)
	}
	if code := run("-once"); code != exitOK {
		t.Errorf("-once: code %d", code)
	}
	expect(t, lab, clusterIP(10), podOne)
	if code := run("-cleanup"); code != exitOK {
		t.Errorf("-cleanup: code %d", code)
	}
}
