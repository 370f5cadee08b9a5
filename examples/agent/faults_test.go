package main

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

// A dataPlane is a backend with what these tests know of it.
type dataPlane struct {
	backend string
	writers []string // the programs that write
	dump    func(*testing.T, *netlab.Lab) string
}

func dataPlanes() []dataPlane {
	return []dataPlane{
		{backendNFTables, []string{"nft"}, tables},
		{backendIPTables, []string{"iptables-restore", "ip6tables-restore"}, chains},
	}
}

// args are the flags for this backend.
func (p dataPlane) args(dir string, more ...string) []string {
	return args(dir, append([]string{"-backend", p.backend}, more...)...)
}

// fresh returns what an empty node gets from a folder.
func (p dataPlane) fresh(t *testing.T, dir string) string {
	t.Helper()
	lab := newLab(t)
	if code, r := onceHere(t, lab, p.args(dir)...); code != exitOK {
		t.Fatalf("fresh node: code %d, round %+v", code, r)
	}
	return p.dump(t, lab)
}

// tables returns what our nftables say, without counters and in an order that does not
// depend on when it was added. What depends on the past and does not matter is left out: in which
// slot of its pool an endpoint is, for which numbers of endpoints there are chains to pick one, and
// chains without rules, which are left over until the kernel lets them be deleted.
func tables(t *testing.T, lab *netlab.Lab) string {
	t.Helper()
	slot := regexp.MustCompile(` \. \d{1,4} : (\d)`)
	localSlot := regexp.MustCompile(` \. \d{5,} : (\d)`)
	affinitySlot := regexp.MustCompile(`^(none|[0-9a-f]+:[0-9a-f]+) : goto`)
	without := regexp.MustCompile(`(?s)\tchain (affinity-\S+ \{|(nodeport-)?(local-)?pick-\w+-\d+ \{.*?)\n\t\}\n`)
	picks := regexp.MustCompile(`^\w+ \. 0:[0-9a-f]+ : goto `)
	var lines []string
	for _, family := range []string{"ip", "ip6"} {
		text := without.ReplaceAllString(nft(t, lab, "-s", "list", "table", family, "vipkit"), "")
		for _, line := range statements(text) {
			if picks.MatchString(line) {
				continue
			}
			line = localSlot.ReplaceAllString(line, " . local : $1")
			line = affinitySlot.ReplaceAllString(line, "slot : goto")
			lines = append(lines, slot.ReplaceAllString(line, " . cluster : $1"))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// statements splits what nft lists into rules, elements and the heads of chains and maps.
func statements(text string) (lines []string) {
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == ',' }) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "elements = {")
		if line = strings.Trim(line, " \t{}"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// chains returns what our iptables chains say, without counters.
func chains(t *testing.T, lab *netlab.Lab) string {
	t.Helper()
	counters := regexp.MustCompile(` \[\d+:\d+\]`)
	var lines []string
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, table := range []string{"nat", "filter"} {
			for line := range strings.Lines(onNodeRun(t, lab, family+"-save", "-t", table)) {
				if strings.Contains(line, "VIPKIT") {
					lines = append(lines, family+" "+table+" "+counters.ReplaceAllString(strings.TrimSpace(line), ""))
				}
			}
		}
	}
	return strings.Join(lines, "\n")
}

// open opens a connection that a test keeps.
func open(t *testing.T, lab *netlab.Lab, to string, proto corev1.Protocol) *netlab.Conn {
	t.Helper()
	conn, res, err := lab.Open(netlab.Probe{From: "pod", Destination: netip.MustParseAddrPort(to), Protocol: proto})
	if err != nil || conn == nil {
		t.Fatalf("open %s: %s, %v", to, res.Outcome, err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestRepair(t *testing.T) {
	nftables, iptables := dataPlanes()[0], dataPlanes()[1]
	tests := []struct {
		name  string
		plane dataPlane
		do    []string // commands
	}{
		{"table flushed", nftables, []string{"nft flush table ip vipkit"}},
		{"table deleted", nftables, []string{"nft delete table ip vipkit"}},
		{"both tables deleted", nftables, []string{"nft delete table ip vipkit", "nft delete table ip6 vipkit"}},
		{"everything flushed", nftables, []string{"nft flush ruleset"}},
		{"one frontend deleted", nftables, []string{"nft delete element ip vipkit service-ips { 10.96.0.10 . tcp . 80 }"}},
		{"one endpoint deleted", nftables, []string{"nft delete element ip vipkit endpoints-tcp { 10.96.0.10 . 80 . 0 }"}},
		{"map flushed", nftables, []string{"nft flush map ip vipkit service-ips"}},
		{"everything flushed", iptables, []string{"iptables -t nat -F", "iptables -F", "iptables -t nat -X", "iptables -X"}},
		{"one jump deleted", iptables, []string{"iptables -t nat -D PREROUTING 1"}},
	}
	dir := t.TempDir()
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	write(t, dir, "api.yaml", service("api", 11, "", podTwo))
	for _, plane := range dataPlanes() {
		t.Run(plane.backend, func(t *testing.T) {
			lab := newLab(t)
			start(t, lab, plane.args(dir, "-check", "50ms")...)
			expect(t, lab, clusterIP(10), podOne)
			want := plane.fresh(t, dir)
			conn := open(t, lab, clusterIP(10), corev1.ProtocolTCP)
			for _, tt := range tests {
				if tt.plane.backend != plane.backend {
					continue
				}
				t.Run("#65 "+tt.name, func(t *testing.T) {
					for _, command := range tt.do {
						onNodeRun(t, lab, strings.Fields(command)...)
					}
					eventually(t, func() bool { return isThere(t, lab, plane) && plane.dump(t, lab) == want },
						func() string { return "it is not what it was:\n" + cmp.Diff(want, plane.dump(t, lab)) })
					if err := conn.Ping(patience); err != nil {
						t.Errorf("the open connection: %v", err)
					}
				})
			}
		})
	}
}

// isThere reports whether there is something to dump.
func isThere(t *testing.T, lab *netlab.Lab, plane dataPlane) bool {
	t.Helper()
	if plane.backend != backendNFTables {
		return true
	}
	list := nft(t, lab, "list", "tables")
	return strings.Contains(list, "table ip vipkit\n") && strings.Contains(list, "table ip6 vipkit\n")
}

// A fault is what happens when a program is about to write.
type fault struct {
	name string
	late bool // it writes before
	kill bool // the agent is killed; otherwise the program fails
}

func faults() []fault {
	return []fault{
		{name: "fails"},
		{name: "fails although it wrote", late: true},
		{name: "the agent is killed before", kill: true},
		{name: "the agent is killed after", late: true, kill: true},
	}
}

// at puts programs in front of the real ones that let the fault happen when the n-th call which
// is not only a question comes. The file it returns exists when that has happened.
func (f fault) at(t *testing.T, n int, programs []string) (happened string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range programs {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		script := fmt.Sprintf(`#!/bin/bash
case " $* " in *" -c "* | *" --test "* | *" --version "*) exec %[5]s "$@" ;; esac
echo >>%[1]s/calls
[ "$(wc -l <%[1]s/calls)" = %[2]d ] || exec %[5]s "$@"
touch %[1]s/happened
! %[3]t || %[5]s "$@"
! %[4]t || kill -9 $PPID
echo "Error: told to fail" >&2
exit 1
`, dir, n, f.late, f.kill, path)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	return filepath.Join(dir, "happened")
}

// TestFaultAtStep lets each write fail once, or kills the agent before or after it, in a round
// that changes several Services. It wants one good round to lead to what a fresh node gets, a
// later one to write nothing, and a connection to an endpoint that stays to live on.
func TestFaultAtStep(t *testing.T) {
	before, after := t.TempDir(), t.TempDir()
	write(t, before, "web.yaml", service("web", 10, "", podOne, podTwo))
	write(t, before, "api.yaml", service("api", 11, "  sessionAffinity: ClientIP", podTwo))
	write(t, after, "web.yaml", service("web", 10, "", podThree))
	write(t, after, "new.yaml", service("new", 12, "", podOne))
	for _, dir := range []string{before, after} {
		write(t, dir, "stays.yaml", service("stays", 13, "", podOne))
	}
	for _, plane := range dataPlanes() {
		want := plane.fresh(t, after)
		lab := newLab(t)
		for _, f := range faults() {
			if plane.backend == backendIPTables && f.late != f.kill {
				continue // its own tests have all of them
			}
			t.Run(plane.backend+", "+f.name, func(t *testing.T) {
				good := func(dir string) round {
					t.Helper()
					code, r := onceHere(t, lab, plane.args(dir)...)
					if code != exitOK {
						t.Fatalf("code %d", code)
					}
					return r
				}
				path := os.Getenv("PATH")
				good(before)
				conn := open(t, lab, clusterIP(13), corev1.ProtocolTCP)
				for n := 1; ; n++ {
					t.Setenv("PATH", path)
					good(before)
					happened := f.at(t, n, plane.writers)
					if f.kill {
						once(t, lab, plane.args(after)...)
					} else {
						onceHere(t, lab, plane.args(after)...)
					}
					t.Setenv("PATH", path)
					if _, err := os.Stat(happened); err != nil {
						if n == 1 {
							t.Fatal("nothing was written")
						}
						return
					}
					good(after)
					if diff := cmp.Diff(want, plane.dump(t, lab)); diff != "" {
						t.Errorf("write %d: the next round leads to (-want +got):\n%s", n, diff)
					}
					good(after) // deletes chains that the one before emptied
					if r := good(after); r.statements != 0 {
						t.Errorf("write %d: nothing differs, and %+v", n, r)
					}
					if err := conn.Ping(patience); err != nil {
						t.Fatalf("write %d: the open connection: %v", n, err)
					}
				}
			})
		}
	}
}
