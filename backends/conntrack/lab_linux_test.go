package conntrack_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/backends/conntrack"
)

// A net4or6 is the addresses of one family in the namespace of a test.
type net4or6 struct {
	family              corev1.IPFamily
	nft                 string // name of the family in rules
	service, client     string
	a, b, route, prefix string
}

func families() []net4or6 {
	return []net4or6{
		{v4, "ip", "10.96.0.10", "10.180.0.99", "10.180.0.1", "10.180.0.2", "10.96.0.0/16", "/32"},
		{v6, "ip6", "fd00:96::10", "fd00:180::99", "fd00:180::1", "fd00:180::2", "fd00:96::/64", "/128"},
	}
}

// A lab is a namespace with two servers on its loopback interface.
type lab struct {
	net4or6
	*netlab.Namespace
	world  *world
	client *net.UDPConn
}

// newLab skips where no namespace can be made.
func newLab(t *testing.T, n net4or6) *lab {
	t.Helper()
	ns, err := netlab.NewNamespace()
	if errors.Is(err, errors.ErrUnsupported) && os.Getenv("VIPKIT_REQUIRE_KERNEL") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	l := &lab{net4or6: n, Namespace: ns, world: newWorld()}
	l.do(t, l.links)
	return l
}

// links gives the loopback interface the addresses of clients and servers, and makes a
// link on which the Service's addresses lead nowhere.
func (l *lab) links() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	errs := []error{netlink.LinkSetUp(lo)}
	for _, a := range []string{l.net4or6.client, l.a, l.b} {
		prefix, e := netlink.ParseIPNet(a + l.prefix)
		errs = append(errs, e, netlink.AddrAdd(lo, &netlink.Addr{IPNet: prefix, Flags: unix.IFA_F_NODAD}))
	}
	out := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "out"}, PeerName: "nowhere"}
	errs = append(errs, netlink.LinkAdd(out), netlink.LinkSetARPOff(out), netlink.LinkSetUp(out))
	errs = append(errs, netlink.LinkSetUp(&netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "nowhere"}}))
	dst, err := netlink.ParseIPNet(l.route)
	errs = append(errs, err, netlink.RouteAdd(&netlink.Route{LinkIndex: out.Attrs().Index, Dst: dst}))
	return errors.Join(errs...)
}

func (l *lab) do(t *testing.T, f func() error) {
	t.Helper()
	if err := l.Do(f); err != nil {
		t.Fatal(err)
	}
}

// serve answers on both endpoints with the endpoint's address, and opens the
// client's socket.
func (l *lab) serve(t *testing.T) {
	t.Helper()
	for _, a := range []string{l.a, l.b} {
		var server *net.UDPConn
		l.do(t, func() (err error) {
			server, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(a), 53)))
			return err
		})
		done := make(chan struct{})
		t.Cleanup(func() {
			_ = server.Close()
			<-done
		})
		go func() {
			defer close(done)
			answer(server, a)
		}()
	}
	l.do(t, func() (err error) {
		l.client, err = net.DialUDP("udp",
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(l.net4or6.client), 0)),
			net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(l.service), 53)))
		return err
	})
	t.Cleanup(func() { _ = l.client.Close() })
}

func answer(server *net.UDPConn, name string) {
	buffer := make([]byte, 64)
	for {
		_, from, err := server.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		_, _ = server.WriteToUDPAddrPort([]byte(name), from)
	}
}

// rules makes the table anew: translate to an endpoint, or reject, or, if to is "",
// do nothing but track.
func (l *lab) rules(t *testing.T, to string) {
	t.Helper()
	match := fmt.Sprintf("%s daddr %s udp dport 53", l.nft, l.service)
	var translate, filter string
	switch {
	case to == "reject":
		filter = match + " reject"
	case strings.Contains(to, ":"):
		translate = fmt.Sprintf("%s dnat to [%s]:53", match, to)
	case to != "":
		translate = fmt.Sprintf("%s dnat to %s:53", match, to)
	}
	script := fmt.Sprintf(`table %[1]s lab {}
delete table %[1]s lab
table %[1]s lab {
	chain nat { type nat hook output priority -100; %[2]s; }
	chain filter { type filter hook output priority 0; ct state new counter; %[3]s; }
}
`, l.nft, translate, filter)
	l.do(t, func() error {
		cmd := exec.CommandContext(t.Context(), "nft", "-f", "-")
		cmd.Stdin = strings.NewReader(strings.ReplaceAll(script, "; ;", ";"))
		out, err := cmd.CombinedOutput()
		if err != nil {
			return fmt.Errorf("nft: %w: %s", err, bytes.TrimSpace(out))
		}
		return nil
	})
}

// sync gives what came into the world to a Cleaner and checks how many flows it deletes.
func (l *lab) sync(t *testing.T, deleted int) {
	t.Helper()
	d := l.world.delta()
	var pass conntrack.Pass
	l.do(t, func() error {
		c := conntrack.New(conntrack.Options{OnPass: func(p conntrack.Pass) {
			if p.Family == l.family {
				pass = p
			}
		}})
		err := c.Sync(t.Context(), d)
		l.world.cursor.Done(d, err)
		return err
	})
	if pass.Deleted != deleted {
		t.Errorf("pass %+v, want %d flows deleted", pass, deleted)
	}
}

// wantAnswer sends a datagram on the client's only socket. An empty server means
// that it is refused.
func (l *lab) wantAnswer(t *testing.T, server string) {
	t.Helper()
	if err := l.client.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	got, err := l.exchange()
	if server != "" && errors.Is(err, unix.ECONNREFUSED) {
		got, err = l.exchange() // that was about an earlier datagram
	}
	if got != server || (err != nil) != (server == "") {
		t.Errorf("answered by %q (%v), want %q", got, err, server)
	}
}

func (l *lab) exchange() (string, error) {
	if _, err := l.client.Write([]byte("who")); err != nil {
		return "", err
	}
	buffer := make([]byte, 64)
	n, err := l.client.Read(buffer)
	return string(buffer[:n]), err
}

// count is how many UDP flows to the Service there are.
func (l *lab) count(t *testing.T) (n int) {
	t.Helper()
	l.do(t, func() error {
		for f, err := range (conntrack.Netlink{}).Flows(t.Context(), l.family) {
			if err != nil {
				return err
			}
			if f.Destination.Addr() == netip.MustParseAddr(l.service) {
				n++
			}
		}
		return nil
	})
	return n
}

func (l *lab) af() int {
	if l.family == v6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

// tcp makes a TCP flow to endpoint a.
func (l *lab) tcp(t *testing.T) {
	t.Helper()
	client, service, a := net.ParseIP(l.net4or6.client), net.ParseIP(l.service), net.ParseIP(l.a)
	if l.family == v4 {
		client, service, a = client.To4(), service.To4(), a.To4()
	}
	l.do(t, func() error {
		return netlink.ConntrackCreate(netlink.ConntrackTable, netlink.InetFamily(l.af()), &netlink.ConntrackFlow{
			FamilyType: uint8(l.af()),
			Forward:    netlink.IPTuple{SrcIP: client, DstIP: service, SrcPort: 40000, DstPort: 53, Protocol: unix.IPPROTO_TCP},
			Reverse:    netlink.IPTuple{SrcIP: a, DstIP: client, SrcPort: 53, DstPort: 40000, Protocol: unix.IPPROTO_TCP},
			TimeOut:    600,
			ProtoInfo:  &netlink.ProtoInfoTCP{State: 3}, // established
		})
	})
}
