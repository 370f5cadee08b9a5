package healthcheck_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/healthcheck"
	"github.com/vipkit/vipkit/proxy/plan"
)

// Real sockets, in a network namespace of the test's own with both families.
func TestKernel(t *testing.T) {
	ns := newNamespace(t)
	health := healthcheck.New(healthcheck.Options{})
	services, err := healthcheck.NewServices(healthcheck.ServicesOptions{
		Loop: health.Loop("vipkit"),
		Listen: func(network, address string) (ln net.Listener, err error) {
			err = ns.Do(func() error {
				ln, err = net.Listen(network, address)
				return err
			})
			return ln, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(services.Close)
	w := newWorld().svc("web", 31000, "10.200.0.1", "10.200.0.2", "fd00:200::1", "fd00:200::2").dual()
	w.cfg.NodePortAddresses = plan.NodePortSelector{All: true}
	sync := func() {
		t.Helper()
		if err := services.Sync(t.Context(), plan.Full(w.plan())); err != nil {
			t.Fatal(err)
		}
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dialIn(ns)}}
	both := []string{"http://127.0.0.1:31000/", "http://[::1]:31000/"}

	t.Run("H26 #47 both families on one port", func(t *testing.T) {
		sync()
		for _, url := range both {
			if got := ask(t, client, http.MethodGet, url); got.code != 200 || got.header.Get("X-Load-Balancing-Endpoint-Weight") != "2" {
				t.Errorf("%s: %d %v", url, got.code, got.header)
			}
		}
	})
	t.Run("H20 H27 #52 the port moves to another Service, on one address", func(t *testing.T) {
		w.without("web").svc("api", 31000, "10.200.0.1")
		w.cfg.NodePortAddresses = plan.NodePortSelector{Localhost: true}
		sync()
		for _, url := range both {
			if got := ask(t, client, http.MethodGet, url); got.code != 200 || got.header.Get("X-Load-Balancing-Endpoint-Weight") != "1" {
				t.Errorf("%s: %d %v", url, got.code, got.header)
			}
		}
		if _, err := dialIn(ns)(t.Context(), "tcp", "127.0.0.2:31000"); err == nil {
			t.Error("another address listens, too")
		}
	})
	t.Run("the Service goes away", func(t *testing.T) {
		w.without("api")
		sync()
		if _, err := dialIn(ns)(t.Context(), "tcp", "127.0.0.1:31000"); err == nil {
			t.Error("the port still listens")
		}
	})
}

func dialIn(ns *netlab.Namespace) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = ns.Do(func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
}

// newNamespace returns a namespace with nothing but a loopback interface.
func newNamespace(t *testing.T) *netlab.Namespace {
	t.Helper()
	ns, err := netlab.NewNamespace()
	if errors.Is(err, errors.ErrUnsupported) && os.Getenv("VIPKIT_REQUIRE_KERNEL") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ns.Close() })
	if err := ns.Do(loopbackUp); err != nil {
		t.Fatal(err)
	}
	return ns
}

func loopbackUp() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}
