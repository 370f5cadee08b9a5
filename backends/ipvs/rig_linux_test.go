package ipvs_test

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/vipkit/vipkit/backends/ipvs"
)

// kernelRig moves the test into a network namespace of its own. The thread is never given
// back, so the namespace ends with it.
func kernelRig(t *testing.T) *rig {
	t.Helper()
	runtime.LockOSThread()
	err := unix.Unshare(unix.CLONE_NEWNET)
	if err != nil {
		if errors.Is(err, unix.EPERM) {
			err = errors.Join(err, errors.ErrUnsupported)
		}
		require(t, err)
	}
	k, err := ipvs.Open()
	if err != nil {
		require(t, err)
	}
	t.Cleanup(func() {
		if closeErr := k.Close(); closeErr != nil {
			t.Error(closeErr)
		}
	})
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		t.Fatal(err)
	}
	err = netlink.LinkSetUp(lo)
	if err != nil {
		t.Fatal(err)
	}
	return &rig{kernel: k, connect: func(t *testing.T, key ipvs.ServerKey, server netip.AddrPort) func() {
		t.Helper()
		bind(t, lo, key.Addr.Addr())
		bind(t, lo, server.Addr())
		return dial(t, k, key, server)
	}}
}

func bind(tb testing.TB, link netlink.Link, a netip.Addr) {
	tb.Helper()
	err := netlink.AddrReplace(link, &netlink.Addr{IPNet: host(a), Flags: unix.IFA_F_NODAD})
	if err != nil {
		tb.Fatal(err)
	}
}

func host(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
}

// dial connects to a virtual server of which one real server has a weight.
func dial(t *testing.T, k *ipvs.Kernel, key ipvs.ServerKey, server netip.AddrPort) (end func()) {
	t.Helper()
	network := strings.ToLower(string(key.Protocol))
	stop := listen(t, network, server)
	c, err := net.Dial(network, key.Addr.String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("x")); err != nil {
		t.Fatal(err)
	}
	count := func() int {
		found, err := ipvs.Behind(k).RealServers(key)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		for _, s := range found {
			if s.Addr == server {
				return s.Active + s.Inactive
			}
		}
		return 0
	}
	eventually(t, "connection is counted", func() bool { return count() == 1 })
	return func() {
		if tc, ok := c.(*net.TCPConn); ok {
			if err := tc.SetLinger(0); err != nil {
				t.Error(err)
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		stop()
		eventually(t, "connection has ended", func() bool { return count() == 0 })
	}
}

// listen serves one address, which only takes what comes.
func listen(t *testing.T, network string, addr netip.AddrPort) (stop func()) {
	t.Helper()
	var closer interface{ Close() error }
	var err error
	if network == "udp" {
		closer, err = net.ListenPacket(network, addr.String())
	} else {
		closer, err = net.Listen(network, addr.String())
	}
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	stop = func() {
		if closed {
			return
		}
		closed = true
		if err := closer.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(stop)
	return stop
}
