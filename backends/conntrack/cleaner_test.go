package conntrack_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/netip"
	"runtime"
	"slices"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/conntrack"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

var errKernel = errors.New("kernel says no")

// replaced is a world in which endpoint a of ns1/dns was replaced.
func replaced() *world {
	return newWorld().set(dns()).eps("10.180.0.1", "fd00:180::1").done().eps("10.180.0.2", "fd00:180::1")
}

func TestCleaner(t *testing.T) {
	t.Run("I02 deletes what is stale, and reads one family only", func(t *testing.T) {
		table := &fakeTable{flows: flows(clusterToA, "192.0.2.1:443>192.0.2.1:443", nodeToA)}
		var passes []conntrack.Pass
		c := conntrack.New(conntrack.Options{Table: table, OnPass: func(p conntrack.Pass) { passes = append(passes, p) }})
		if err := c.Sync(t.Context(), replaced().delta()); err != nil {
			t.Fatal(err)
		}
		table.want(t, clusterToA, nodeToA)
		if table.reads != 1 || len(passes) != 1 || passes[0].Family != v4 || passes[0].Flows != 3 || passes[0].Deleted != 2 {
			t.Errorf("%d reads, passes %+v", table.reads, passes)
		}
	})
	t.Run("I18 #35 reads nothing if no UDP frontend changed", func(t *testing.T) {
		table := &fakeTable{}
		w := newWorld().set(dns(onlyTCP)).eps("10.180.0.1")
		c := conntrack.New(conntrack.Options{Table: table})
		if err := c.Sync(t.Context(), w.delta()); err != nil || table.reads != 0 {
			t.Errorf("%d reads, %v", table.reads, err)
		}
	})
	t.Run("I16 #35 an interrupted read is used, and repeated", func(t *testing.T) {
		table := &fakeTable{flows: flows(clusterToA, nodeToA), cut: 1, fail: map[int]error{1: interrupted()}}
		if err := conntrack.New(conntrack.Options{Table: table}).Sync(t.Context(), replaced().delta()); err != nil {
			t.Fatal(err)
		}
		table.want(t, clusterToA, nodeToA)
		if table.reads != 2 {
			t.Errorf("%d reads, want 2", table.reads)
		}
	})
	t.Run("I16 it is interrupted again and again", func(t *testing.T) {
		table := &fakeTable{flows: flows(clusterToA, nodeToA), cut: 1, fail: map[int]error{}}
		for i := range 100 {
			table.fail[i] = interrupted()
		}
		err := conntrack.New(conntrack.Options{Table: table}).Sync(t.Context(), replaced().delta())
		if !errors.Is(err, conntrack.ErrInterrupted) || table.reads != 4 {
			t.Errorf("%d reads, %v; want 4 and ErrInterrupted", table.reads, err)
		}
	})
	t.Run("I17 the read fails", func(t *testing.T) {
		table := &fakeTable{flows: flows(clusterToA), fail: map[int]error{1: syscall.EPERM}}
		err := conntrack.New(conntrack.Options{Table: table}).Sync(t.Context(), replaced().delta())
		if !errors.Is(err, syscall.EPERM) || err.Error() != "conntrack: clean IPv4: read flows: operation not permitted" {
			t.Errorf("Sync = %v", err)
		}
		table.want(t)
		if table.reads != 1 {
			t.Errorf("%d reads, want 1", table.reads)
		}
	})
	t.Run("a deletion fails", func(t *testing.T) {
		table := &fakeTable{flows: flows(clusterToA), refuse: syscall.EPERM}
		err := conntrack.New(conntrack.Options{Table: table}).Sync(t.Context(), replaced().delta())
		if !errors.Is(err, syscall.EPERM) {
			t.Errorf("Sync = %v", err)
		}
	})
}

func interrupted() error { return fmt.Errorf("dump: %w", conntrack.ErrInterrupted) }

func TestLocalAddresses(t *testing.T) {
	w := newWorld()
	w.cfg.NodePortAddresses = plan.NodePortSelector{All: true}
	w.set(dns()).eps("10.180.0.1").done()
	onOther := "172.18.0.1:30053>10.180.0.1:53"
	table := &fakeTable{flows: flows(onOther)}
	asked, local := 0, errKernel
	c := conntrack.New(conntrack.Options{Table: table, LocalAddrs: func(context.Context, corev1.IPFamily) ([]netip.Addr, error) {
		asked++
		return []netip.Addr{netip.MustParseAddr("172.18.0.1")}, local
	}})
	d := w.eps("10.180.0.2").delta()
	if err := c.Sync(t.Context(), d); !errors.Is(err, errKernel) || table.reads != 0 {
		t.Errorf("Sync = %v after %d reads, want the error", err, table.reads)
	}
	local = nil
	if err := c.Sync(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	table.want(t, onOther)
	w.cursor.Done(d, nil)
	if err := c.Sync(t.Context(), w.set(dns(onlyTCP, func(s *service.Service) { s.Name = nsn("web"); s.IPv4.ClusterIP = netip.MustParseAddr("10.96.0.80") })).delta()); err != nil || asked != 2 {
		t.Errorf("asked %d times (%v), want 2: a TCP Service needs no addresses", asked, err)
	}
}

// foreign yields n flows that no Service has to do with, and keeps none.
type foreign struct {
	n     int
	every int // how many flows there are for one that is stale
}

func (t *foreign) Flows(_ context.Context, f corev1.IPFamily) iter.Seq2[conntrack.Flow, error] {
	return func(yield func(conntrack.Flow, error) bool) {
		for i := range t.n {
			b := [4]byte{172, byte(i >> 16), byte(i >> 8), byte(i)}
			flow := conntrack.Flow{
				Source:      netip.AddrPortFrom(netip.AddrFrom4(b), 40000),
				Destination: netip.AddrPortFrom(netip.AddrFrom4([4]byte{203, b[1], b[2], b[3]}), 53),
			}
			flow.ReplySource = flow.Destination
			if t.every > 0 && i%t.every == 0 {
				flow.Destination = netip.MustParseAddrPort("10.96.0.10:53")
			}
			if f == v4 && !yield(flow, nil) {
				return
			}
		}
	}
}

func (t *foreign) Delete(_ context.Context, flows []conntrack.Flow) (int, error) {
	return len(flows), nil
}

// many is a world of 5,000 UDP Services with ns1/dns, of which one endpoint is replaced.
func many() *world {
	w := newWorld().set(dns()).eps("10.180.0.1", "10.180.0.3")
	for i := range 5000 {
		s := other()
		s.Name = nsn(fmt.Sprint("s", i))
		s.Ports[0].NodePort = 0
		s.IPv4.ClusterIP = netip.AddrFrom4([4]byte{10, 97, byte(i >> 8), byte(i)})
		w.set(s).epsOf(s.Name.Name, "10.180.1.1", "10.180.1.2")
	}
	return w
}

// Everything that is allocated in a pass counts here, given back or not.
func TestMemory(t *testing.T) {
	t.Run("#35 a million flows of others", func(t *testing.T) {
		const limit = 1 << 20
		w := many().done()
		d := w.eps("10.180.0.2", "10.180.0.3").delta()
		table := &foreign{n: 1_000_000, every: 1000}
		var pass conntrack.Pass
		c := conntrack.New(conntrack.Options{Table: table, OnPass: func(p conntrack.Pass) { pass = p }})
		if got := allocated(func() {
			if err := c.Sync(t.Context(), d); err != nil {
				t.Error(err)
			}
		}); got > limit {
			t.Errorf("%d bytes were allocated, want at most %d", got, limit)
		}
		if pass.Flows != 1_000_000 || pass.Deleted != 1000 {
			t.Errorf("pass %+v, want 1,000,000 flows and 1,000 deleted", pass)
		}
	})
	t.Run("#35 fewer, after a restart", func(t *testing.T) {
		const limit = 16 << 20
		d := many().delta()
		c := conntrack.New(conntrack.Options{Table: &foreign{n: 200_000}})
		if got := allocated(func() {
			if err := c.Sync(t.Context(), d); err != nil {
				t.Error(err)
			}
		}); got > limit {
			t.Errorf("%d bytes were allocated, want at most %d", got, limit)
		}
	})
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestFailedPassIsFollowedUp(t *testing.T) {
	t.Run("#5 #3 one table fails once", func(t *testing.T) {
		w := newWorld().set(dns()).eps("10.180.0.1").done()
		table := &fakeTable{flows: flows(clusterToA, nodeToA), fail: map[int]error{1: syscall.ENOBUFS}}
		c := conntrack.New(conntrack.Options{Table: table})
		d := w.remove().delta()
		w.cursor.Done(d, c.Sync(t.Context(), d))
		table.want(t)
		d = w.delta()
		w.cursor.Done(d, c.Sync(t.Context(), d))
		slices.Sort(table.deleted)
		table.want(t, clusterToA, nodeToA)
		if w.delta() != nil {
			t.Error("there is still something to do")
		}
	})
}

func TestTried(t *testing.T) {
	// A Service that was in place in a round that failed only.
	after := func(t *testing.T, table *fakeTable, changes ...func(*service.Service)) (*world, *conntrack.Cleaner) {
		t.Helper()
		w, c := newWorld().done(), conntrack.New(conntrack.Options{Table: table})
		backend := plan.Cursor{}
		p, diff := w.plan.Update(newWorld().set(dns(changes...)).eps("10.180.0.1").in)
		backend.Done(backend.Delta(w.plan), nil)
		backend.Note(diff)
		c.Tried(nil)
		c.Tried(backend.Delta(p))
		return w, c
	}
	sync := func(t *testing.T, w *world, c *conntrack.Cleaner) error {
		t.Helper()
		w.cursor.Reset()
		d := w.delta()
		err := c.Sync(t.Context(), d)
		w.cursor.Done(d, err)
		return err
	}
	t.Run("#5 flows of what was tried and is in no plan", func(t *testing.T) {
		table := &fakeTable{flows: flows(clusterToA, vipToA, nodeToA, "10.96.0.11:53>10.180.0.1:53")}
		w, c := after(t, table)
		if err := sync(t, w, c); err != nil {
			t.Fatal(err)
		}
		table.want(t, clusterToA, vipToA, nodeToA)
		if err := sync(t, w, c); err != nil || table.reads != 2 {
			t.Errorf("%v, %d reads, want one of each family: what was tried counts once", err, table.reads)
		}
	})
	t.Run("#5 it counts until a pass succeeds", func(t *testing.T) {
		table := &fakeTable{flows: flows(clusterToA), fail: map[int]error{1: syscall.ENOBUFS}}
		w, c := after(t, table)
		if err := sync(t, w, c); !errors.Is(err, syscall.ENOBUFS) {
			t.Fatalf("Sync = %v", err)
		}
		if err := sync(t, w, c); err != nil {
			t.Fatal(err)
		}
		table.want(t, clusterToA)
	})
	t.Run("flows that are right by now stay", func(t *testing.T) {
		table := &fakeTable{flows: flows(clusterToA, "10.96.0.10:53>10.180.0.2:53")}
		w, c := after(t, table)
		if err := sync(t, w.set(dns()).eps("10.180.0.1"), c); err != nil {
			t.Fatal(err)
		}
		table.want(t, "10.96.0.10:53>10.180.0.2:53")
	})
	t.Run("only UDP", func(t *testing.T) {
		table := &fakeTable{flows: flows(clusterToA)}
		w, c := after(t, table, onlyTCP)
		if err := sync(t, w, c); err != nil || table.reads != 0 {
			t.Errorf("%v, %d reads", err, table.reads)
		}
	})
}
