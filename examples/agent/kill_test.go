package main

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

// killSize is how much TestKill does: as much as VIPKIT_KILLS says, or a little.
func killSize(t *testing.T) (kills, services, rate int) {
	t.Helper()
	if n, err := strconv.Atoi(os.Getenv("VIPKIT_KILLS")); err == nil {
		return n, soakServices, soakRate
	}
	return 4, 100, 50
}

// TestKill kills the agent at any time while Services change. Each start then writes only what
// differs, and an open connection to an endpoint that stays never breaks.
func TestKill(t *testing.T) {
	kills, services, rate := killSize(t)
	s := &soak{dir: t.TempDir(), lab: newLab(t), rng: rand.New(rand.NewPCG(1, 2))}
	write(t, s.dir, "stays.yaml", strings.Replace(service("stays", 1, "", podOne), "10.96.0.1\n", "10.96.200.1\n", 1))
	for n := range services {
		s.change(t, n)
	}
	s.changeNode(t)
	code, cold := onceHere(t, s.lab, args(s.dir)...)
	if code != exitOK {
		t.Fatalf("code %d", code)
	}
	conn := open(t, s.lab, "10.96.200.1:80", corev1.ProtocolTCP)
	random := func() <-chan time.Time { return time.After(time.Duration(s.rng.IntN(2000)) * time.Millisecond) }
	before, most, mostDiffer := counted(t, s.lab), 0, 0
	for i := range kills {
		// There is time to look at what the first round wrote before the next one begins.
		c := start(t, s.lab, args(s.dir, "-min-sync", "1s")...)
		if i%5 == 4 {
			s.churnUntil(t, services, rate, random()) // often in the first round
		} else {
			s.churnUntil(t, services, rate, c.first())
			r := c.next(t)
			differ := difference(before, counted(t, s.lab))
			if !r.full || r.failed > 0 || r.statements > differ {
				t.Errorf("start %d: round %+v; %d statements are in the tables that were not, or the other way round", i, r, differ)
			}
			if r.statements > most {
				most, mostDiffer = r.statements, differ
			}
			s.churnUntil(t, services, rate, random())
		}
		c.signal(t, syscall.SIGKILL)
		<-c.ended
		before = counted(t, s.lab)
		if err := conn.Ping(patience); err != nil {
			t.Fatalf("kill %d: the open connection: %v", i, err)
		}
	}
	for range 2 { // the second deletes chains that the first emptied
		if code, r := onceHere(t, s.lab, args(s.dir)...); code != exitOK {
			t.Fatalf("code %d, round %+v", code, r)
		}
	}
	if code, r := onceHere(t, s.lab, args(s.dir)...); code != exitOK || r.statements != 0 {
		t.Errorf("nothing differs: code %d, round %+v", code, r)
	}
	want, got := countLines(dataPlanes()[0].fresh(t, s.dir)), countLines(tables(t, s.lab))
	if lacks := more(want, got); len(lacks) > 0 {
		t.Errorf("after all kills the tables lack %q", lacks)
	}
	// The chains that all Services of one kind share stay when the last one goes.
	shared := regexp.MustCompile(`^chain (nodeport-)?row-|comment "[a-z0-9]{16}"$`)
	if left := slices.DeleteFunc(more(got, want), shared.MatchString); len(left) > 0 {
		t.Errorf("after all kills the tables have %q too many", left)
	}
	t.Logf("%d kills among %d changes; a cold start wrote %d statements, one after a kill at most %d, where %d differed",
		kills, s.events, cold.statements, most, mostDiffer)
}

// churnUntil changes Services until done.
func (s *soak) churnUntil(t *testing.T, services, rate int, done <-chan time.Time) {
	t.Helper()
	ticker := time.NewTicker(time.Second / 50)
	defer ticker.Stop()
	began, n := time.Now(), 0
	for {
		for ; n < int(time.Since(began).Seconds()*float64(rate)); n++ {
			s.change(t, s.rng.IntN(services))
			s.events++
		}
		select {
		case <-done:
			return
		case <-ticker.C:
		}
	}
}

// first returns a channel that gets something when the agent has done a round or ended.
func (c *child) first() <-chan time.Time {
	first := make(chan time.Time, 1)
	go func() {
		for len(c.rounds) == 0 && !isClosed(c.ended) {
			<-time.After(time.Millisecond)
		}
		first <- time.Now()
	}()
	return first
}

// counted returns how often each statement is in our tables, slots included. What clients add by
// session affinity is left out.
func counted(t *testing.T, lab *netlab.Lab) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, family := range []string{"ip", "ip6"} {
		for _, line := range statements(nft(t, lab, "-s", "list", "table", family, "vipkit")) {
			if !strings.Contains(line, " expires ") {
				all[family+" "+line]++
			}
		}
	}
	return all
}

// difference is how many statements are in one of both only.
func difference(a, b map[string]int) int { return len(more(a, b)) + len(more(b, a)) }

// more returns what is in a and not, or not as often, in b.
func more(a, b map[string]int) (lines []string) {
	for line, n := range a {
		for range n - b[line] {
			lines = append(lines, line)
		}
	}
	return lines
}

func countLines(text string) map[string]int {
	all := map[string]int{}
	for line := range strings.Lines(text) {
		all[strings.TrimSpace(line)]++
	}
	return all
}
