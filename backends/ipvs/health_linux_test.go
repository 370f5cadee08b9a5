package ipvs_test

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/vipkit/vipkit/proxy/service"
)

// TestListenersOfTheNode dials, as the node, addresses that it has, while programs listen on all of them. The kernel
// has the table; what binds addresses and balances is in memory.
func TestListenersOfTheNode(t *testing.T) {
	const clusterIP, lb, own = "10.96.0.10", "198.51.100.9", "198.51.100.7"
	w := newTableWorld(t)
	w.other(addr(own))
	health, other := listenAnywhere(t), listenAnywhere(t)
	for _, a := range []string{"192.0.2.2", clusterIP, lb, own} {
		addToLoopback(t, addr(a))
	}
	w.sync(with(app{name: "web", vip: clusterIP, eps: here, change: local(func(s *service.Service) {
		s.IPv4.LoadBalancerIPs = append(s.IPv4.LoadBalancerIPs, addr(lb), addr(own))
		s.HealthCheckNodePort = health
	})}))
	tests := []struct {
		name string
		ip   string
		port uint16
		open bool
	}{
		{"fault F04 health check on a load-balancer IP that is bound", lb, health, true},
		{"fault F04 another port of the node on it", lb, other, false},
		{"fault F04 health check on a ClusterIP", clusterIP, health, false},
		{"fault F04 health check on the node's address", "192.0.2.2", health, true},
		{"fault F04 health check on a load-balancer IP that is the machine's own", own, health, true},
		{"fault F04 another port of the machine on it", own, other, true},
	}
	dialAll := func(t *testing.T) {
		t.Helper()
		for _, tt := range tests {
			if err := dialTCP(tt.ip, tt.port); (err == nil) != tt.open {
				t.Errorf("%s: %v, want open %t", tt.name, err, tt.open)
			}
		}
	}
	dialAll(t)
	w.restart()
	w.sync(with())
	dialAll(t)
	w.sync(with(app{name: "web", vip: clusterIP, eps: here, change: external(lb)}))
	if err := dialTCP(lb, health); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("fault F04 the Service has no health check any more: %v, want it refused", err)
	}
}

// listenAnywhere listens on all addresses of the namespace, and returns the port.
func listenAnywhere(t *testing.T) uint16 {
	t.Helper()
	ln, err := net.Listen("tcp4", "0.0.0.0:0") //nolint:noctx // it ends with the test
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	return uint16(ln.Addr().(*net.TCPAddr).Port) //nolint:forcetypeassert // "tcp4"
}

// dialTCP connects from the namespace of the test's thread.
func dialTCP(ip string, port uint16) error {
	c, err := net.DialTimeout("tcp4", net.JoinHostPort(ip, strconv.Itoa(int(port))), 10*time.Second)
	if err != nil {
		return err
	}
	return c.Close()
}
