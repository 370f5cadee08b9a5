package healthcheck_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vipkit/vipkit/healthcheck"
)

// A crowd is clients that keep connections open.
type crowd struct {
	conns  []net.Conn
	closed chan struct{} // one for each that the server closed
}

// join opens n connections from an address; each sends text and nothing more.
func (c *crowd) join(t *testing.T, h *host, n int, source, text string) {
	t.Helper()
	for range n {
		conn, err := h.dialFrom(source, "tcp", web4)
		if err != nil {
			t.Fatal(err)
		}
		c.conns = append(c.conns, conn)
		go func() { _, _ = io.WriteString(conn, text) }()
		go func() {
			_, _ = io.Copy(io.Discard, conn)
			c.closed <- struct{}{}
		}()
	}
}

func (c *crowd) leave() {
	for _, conn := range c.conns {
		_ = conn.Close()
	}
}

// inBubble runs a test in bubbled time with a Service that has one local endpoint.
func inBubble(t *testing.T, test func(t *testing.T, r *rig, c *crowd)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.svc("web", 31000, "10.200.0.1")
		r.sync(t)
		c := &crowd{closed: make(chan struct{}, 10000)}
		test(t, r, c)
		c.leave()
		r.Close()
	})
}

const question = "GET / HTTP/1.1\r\nHost: web\r\n\r\n"

func TestConnectionLimits(t *testing.T) {
	open := func(c *crowd) int {
		synctest.Wait()
		return len(c.conns) - len(c.closed)
	}
	t.Run("fault F17 one client opens 2,000", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig, c *crowd) {
			t.Helper()
			c.join(t, r.host, 10, "198.51.100.9", "")
			c.join(t, r.host, 2000, "198.51.100.7", "")
			if got := open(c); got != 10+64 {
				t.Errorf("%d are open, want 64 of the one client and all of the other", got)
			}
			r.wantWeight(t, web4, 200, "1")
		})
	})
	t.Run("fault F17 an IPv6 segment is one client", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig, c *crowd) {
			t.Helper()
			for i := range 200 {
				c.join(t, r.host, 1, fmt.Sprintf("2001:db8:7::%x", i+1), "")
			}
			if got := open(c); got != 64 {
				t.Errorf("%d are open, want 64", got)
			}
		})
	})
	t.Run("fault F17 many clients", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig, c *crowd) {
			t.Helper()
			for i := range 250 {
				c.join(t, r.host, 8, fmt.Sprintf("203.0.113.%d", i), "")
			}
			if got := open(c); got != 256 {
				t.Errorf("%d are open, want 256", got)
			}
			r.wantWeight(t, web4, 200, "1") // a new one is served all the same
		})
	})
}

func TestConnectionsEnd(t *testing.T) {
	for name, text := range map[string]string{
		"says nothing":         "",
		"never ends its head":  "GET / HTTP/1.1\r\nHost: web\r\n",
		"never sends its body": "POST / HTTP/1.1\r\nHost: web\r\nContent-Length: 1000\r\n\r\n",
		"keeps alive":          question,
	} {
		t.Run("fault F17 a client that "+name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, r *rig, c *crowd) {
				t.Helper()
				c.join(t, r.host, 1, "198.51.100.7", text)
				time.Sleep(6 * time.Second)
				synctest.Wait()
				if len(c.closed) != 1 {
					t.Error("its connection is still open after 6 s")
				}
			})
		})
	}
	t.Run("fault F17 the answer says that the connection is closed", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig, _ *crowd) {
			t.Helper()
			conn, err := r.dial(t.Context(), "tcp", web4)
			if err != nil {
				t.Fatal(err)
			}
			go func() { _, _ = io.WriteString(conn, question) }()
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || !res.Close {
				t.Errorf("answer %+v, %v; want Connection: close", res, err)
			}
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		})
	})
	t.Run("fault F17 a head without end is refused", func(t *testing.T) {
		inBubble(t, func(t *testing.T, r *rig, _ *crowd) {
			t.Helper()
			conn, err := r.dial(t.Context(), "tcp", web4)
			if err != nil {
				t.Fatal(err)
			}
			go func() {
				_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: web\r\n")
				for err = error(nil); err == nil; {
					_, err = io.WriteString(conn, "X-Long: 0123456789012345678901234567890123456789\r\n")
				}
			}()
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil || res.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
				t.Errorf("answer %+v, %v; want 431", res, err)
			}
			_ = conn.Close()
			time.Sleep(time.Second) // the server lingers
		})
	})
}

func TestServeLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		host := newHost()
		opts := healthcheck.ServeOptions{
			Address: web4, HardFail: true, Listen: host.listen,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }),
		}
		done := make(chan error, 1)
		ctx, cancel := context.WithCancel(t.Context())
		go func() { done <- healthcheck.New(healthcheck.Options{}).Serve(ctx, opts) }()
		synctest.Wait()
		c := &crowd{closed: make(chan struct{}, 1000)}
		c.join(t, host, 500, "198.51.100.7", "")
		synctest.Wait()
		if got := len(c.conns) - len(c.closed); got != 64 {
			t.Errorf("fault F17 %d are open, want 64", got)
		}
		if got := host.ask(t, http.MethodGet, "http://"+web4+"/"); got.code != http.StatusTeapot {
			t.Errorf("answer %+v, want that of the Handler", got)
		}
		c.leave()
		cancel()
		if err := <-done; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
}
