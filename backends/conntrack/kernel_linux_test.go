package conntrack_test

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipkit/vipkit/backends/conntrack"
	"github.com/vipkit/vipkit/proxy/plan"
)

// One client that never opens another socket.
func TestKernelFlows(t *testing.T) {
	for _, n := range families() {
		t.Run(string(n.family), func(t *testing.T) {
			l := newLab(t, n)
			l.serve(t)
			l.tcp(t)
			l.rules(t, "")
			l.world.set(dns()).eps()
			l.sync(t, 0)

			t.Run("I03 #32 never translated, then the first endpoint comes", func(t *testing.T) {
				if _, err := l.client.Write([]byte("nobody hears this")); err != nil {
					t.Fatal(err)
				}
				l.rules(t, n.a)
				l.world.eps(n.a)
				l.sync(t, 1)
				l.wantAnswer(t, n.a)
			})
			t.Run("I01 #33 restart with nothing changed", func(t *testing.T) {
				l.world.cursor = plan.Cursor{}
				l.sync(t, 0)
				l.wantAnswer(t, n.a)
			})
			t.Run("I02 the endpoint is replaced", func(t *testing.T) {
				l.rules(t, n.b)
				l.wantAnswer(t, n.a) // the rules alone change nothing
				l.world.eps(n.b)
				l.sync(t, 1)
				l.wantAnswer(t, n.b)
			})
			t.Run("I04 #34 terminating, and others take new flows", func(t *testing.T) {
				l.rules(t, n.a)
				l.world.eps(n.b+" T", n.a)
				l.sync(t, 0)
				l.wantAnswer(t, n.b)
			})
			t.Run("I11 #2 scaled to zero", func(t *testing.T) {
				l.rules(t, "reject")
				l.wantAnswer(t, n.b)
				l.world.eps()
				l.sync(t, 1)
				l.wantAnswer(t, "")
			})
			t.Run("I13 #3 the Service is deleted", func(t *testing.T) {
				l.world.eps(n.a)
				l.sync(t, 0)
				l.rules(t, n.a)
				l.wantAnswer(t, n.a)
				l.rules(t, "")
				l.wantAnswer(t, n.a)
				l.world.remove()
				l.sync(t, 1)
				if got := l.count(t); got != 0 {
					t.Errorf("%d flows are left", got)
				}
			})
			t.Run("I15 #36 TCP is still there", func(t *testing.T) {
				l.do(t, func() error {
					list, err := netlink.ConntrackTableList(netlink.ConntrackTable, netlink.InetFamily(l.af()))
					for _, f := range list {
						if f.Forward.Protocol == unix.IPPROTO_TCP {
							return err
						}
					}
					return errors.Join(err, errors.New("it is gone"))
				})
			})
		})
	}
}

func TestKernelTable(t *testing.T) {
	t.Run("a flow of another zone, one that is gone, and no other", func(t *testing.T) {
		l := newLab(t, families()[0])
		all := flows(clusterToA, "10.96.0.10:54>10.180.0.1:53", "10.96.0.10:55>10.180.0.1:53")
		for i := range all {
			all[i].Source = netip.AddrPortFrom(all[i].Source.Addr(), uint16(40000+i))
		}
		all[1].Zone = 5
		l.do(t, func() error { return conntrack.CreateFlows(all) })
		found := l.read(t)
		if len(found) != 3 {
			t.Fatalf("%d flows, want 3", len(found))
		}
		for _, dst := range []string{"10.96.0.10:54", "10.96.0.10:53"} {
			f := found[netip.MustParseAddrPort(dst)]
			wrong := f
			wrong.ID++
			for _, try := range []struct {
				flow conntrack.Flow
				want int
			}{{wrong, 0}, {f, 1}, {f, 0}} {
				l.do(t, func() error {
					n, err := conntrack.Netlink{}.Delete(t.Context(), []conntrack.Flow{try.flow})
					if n != try.want {
						t.Errorf("deleted %d of %+v, want %d", n, try.flow, try.want)
					}
					return err
				})
			}
		}
		if left := l.read(t); len(left) != 1 {
			t.Errorf("left are %v, want one", left)
		}
	})
	t.Run("#35 #36 the kernel sends UDP of one family only", func(t *testing.T) {
		l := newLab(t, families()[0])
		l.tcp(t)
		all := flows(clusterToA, "[fd00:96::10]:53>[fd00:180::1]:53")
		l.do(t, func() error { return conntrack.CreateFlows(all) })
		l.do(t, func() error {
			n, err := conntrack.CountAnswers(v4)
			if n != 1 { // Linux before 5.8 sends the TCP flow, too
				t.Errorf("the kernel sent %d entries, want 1", n)
			}
			return err
		})
	})
	t.Run("a context that is done", func(t *testing.T) {
		l := newLab(t, families()[0])
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		l.do(t, func() error {
			for _, err := range (conntrack.Netlink{}).Flows(ctx, v4) {
				if !errors.Is(err, context.Canceled) {
					t.Errorf("Flows: %v", err)
				}
			}
			if _, err := (conntrack.Netlink{}).Delete(ctx, flows(clusterToA)); !errors.Is(err, context.Canceled) {
				t.Errorf("Delete: %v", err)
			}
			return nil
		})
	})
}

func (l *lab) read(t *testing.T) map[netip.AddrPort]conntrack.Flow {
	t.Helper()
	found := map[netip.AddrPort]conntrack.Flow{}
	l.do(t, func() error {
		for f, err := range (conntrack.Netlink{}).Flows(t.Context(), l.family) {
			if err != nil {
				return err
			}
			found[f.Destination] = f
		}
		return nil
	})
	return found
}

func TestKernelManyFlows(t *testing.T) {
	if testing.Short() {
		t.Skip("makes 200,000 flows")
	}
	t.Run("#35 200,000 flows of others, 2,000 stale ones", func(t *testing.T) {
		const others, stale = 200_000, 2_000
		l := newLab(t, families()[0])
		l.world.set(dns()).eps("10.180.0.1").done()
		var all []conntrack.Flow
		for i := range others {
			f := flow("203.0.113.9:53>203.0.113.9:53")
			f.Source = netip.AddrPortFrom(netip.AddrFrom4([4]byte{172, 16, byte(i >> 16), byte(i >> 8)}), uint16(10000+i&0xff))
			all = append(all, f)
		}
		for i := range stale {
			f := flow(clusterToA)
			f.Source = netip.AddrPortFrom(f.Source.Addr(), uint16(10000+i))
			all = append(all, f)
		}
		l.do(t, func() error { return conntrack.CreateFlows(all) })
		l.world.eps("10.180.0.2")
		var bytes uint64
		start := time.Now()
		bytes = allocated(func() { l.sync(t, stale) })
		t.Logf("a pass over %d flows took %v and allocated %d bytes", len(all), time.Since(start), bytes)
		if limit := uint64(8 << 20); bytes > limit {
			t.Errorf("%d bytes were allocated, want at most %d", bytes, limit)
		}
		if got := l.count(t); got != 0 {
			t.Errorf("%d stale flows are left", got)
		}
	})
}
