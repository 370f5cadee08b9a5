package main

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

// crowd opens n connections from the client, each of which asks once, or never if it is silent, and
// stays as long as the server lets it.
func crowd(t *testing.T, lab *netlab.Lab, address string, n int, silent bool) {
	t.Helper()
	err := lab.Namespace("client").Do(func() error {
		for range n {
			conn, err := net.DialTimeout("tcp", address, patience)
			if err != nil {
				return err
			}
			t.Cleanup(func() { _ = conn.Close() })
			if silent {
				continue
			}
			_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: node\r\nConnection: keep-alive\r\n\r\n")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestCrowds has clients that keep more connections than the agent may have files.
func TestCrowds(t *testing.T) {
	const clients, files = 1000, "512"
	lab, dir := newLab(t), t.TempDir()
	const spec = "  type: LoadBalancer\n  externalTrafficPolicy: Local\n  healthCheckNodePort: 32000"
	write(t, dir, "web.yaml", service("web", 10, spec, podOne))
	c := startCommand(t, lab, nil, append([]string{"sh", "-c", "ulimit -n " + files + ` && exec "$@"`, "sh", os.Args[0]},
		args(dir, "-healthz-address", nodeIP+":10256", "-metrics-address", nodeIP+":10249")...)...)
	c.next(t)
	pods := []string{podOne, podTwo}
	for i, port := range []string{"32000", "10256", "10249"} {
		for _, silent := range []bool{true, false} {
			t.Run(fmt.Sprintf("fault F17 port %s, silent %t", port, silent), func(t *testing.T) {
				crowd(t, lab, nodeIP+":"+port, clients, silent)
				if a := curl(t, lab, "elsewhere", "http://"+nodeIP+":32000"); a.code != http.StatusOK {
					t.Errorf("the health-check port answers %+v", a)
				}
				pods[0], pods[1] = pods[1], pods[0]
				write(t, dir, "web.yaml", service("web", 10, spec, pods[:1]...))
				if r := c.next(t); r.changes == 0 || r.failed > 0 {
					t.Errorf("round %d: %+v, want the change to be written", i, r)
				}
				expect(t, lab, clusterIP(10), pods[0])
			})
		}
	}
}
