package healthcheck_test

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vipkit/vipkit/proxy/plan"
)

const (
	web4 = "192.0.2.10:31000"
	web6 = "[2001:db8:1::10]:31000"
)

func TestAnswers(t *testing.T) {
	tests := []struct {
		name   string
		local  []string
		code   int
		weight string
	}{
		{"H15 two endpoints", []string{"10.200.0.1", "10.200.0.2"}, 200, "2"},
		{"H16 none", nil, 503, "0"},
		{"H16 only elsewhere", []string{"10.200.1.1 remote"}, 503, "0"},
		{"H23 both ports of two pods", []string{"10.200.0.1", "10.200.0.2"}, 200, "2"},
		{"H24 terminating", []string{"10.200.0.1 T"}, 503, "0"},
		{"H25 terminating but ready", []string{"10.200.0.1 P"}, 200, "1"},
		{"fault F08c slices of another family than the Service's", []string{"10.200.0.1", "fd00:200::1", "fd00:200::2"}, 200, "1"},
		{"fault F08c nothing but such", []string{"10.200.1.1 remote", "fd00:200::1"}, 503, "0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.svc("web", 31000, tt.local...)
			r.sync(t)
			r.wantWeight(t, web4, tt.code, tt.weight)
			r.wantWeight(t, web6, tt.code, tt.weight)
		})
	}
}

// TestFamilies asks on both families of a dual-stack Service.
func TestFamilies(t *testing.T) {
	t.Run("fault F08c the family that is asked on decides", func(t *testing.T) {
		r := newRig(t)
		r.svc("web", 31000, "10.200.1.1 remote", "fd00:200::1", "fd00:200::2").dual()
		r.sync(t)
		r.wantWeight(t, web4, 503, "0")
		r.wantWeight(t, web6, 200, "2")
		r.svc("web", 31000, "10.200.0.1", "fd00:200::1 remote").dual()
		r.sync(t)
		r.wantWeight(t, web4, 200, "1")
		r.wantWeight(t, web6, 503, "0")
	})
	t.Run("fault F08c the other family leaves the Service", func(t *testing.T) {
		r := newRig(t)
		r.svc("web", 31000, "10.200.0.1", "fd00:200::1 remote").dual()
		r.sync(t)
		r.svc("web", 31000, "10.200.0.1", "fd00:200::1 remote")
		r.sync(t)
		r.wantWeight(t, web6, 200, "1")
	})
}

func TestBody(t *testing.T) {
	r := newRig(t)
	r.svc("web", 31000, "10.200.0.1", "10.200.0.2")
	r.sync(t)
	want := "{\n\t\"service\": {\n\t\t\"namespace\": \"ns1\",\n\t\t\"name\": \"web\"\n\t},\n\t\"localEndpoints\": 2,\n\t\"serviceProxyHealthy\": true\n}"
	got := r.ask(t, http.MethodGet, "http://"+web4+"/")
	if got.body != want {
		t.Errorf("body %q, want %q", got.body, want)
	}
	if got.header.Get("Content-Type") != "application/json" || got.header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("headers %v", got.header)
	}
	t.Run("H28 every method and path", func(t *testing.T) {
		for _, method := range []string{http.MethodHead, http.MethodPost, http.MethodPut, http.MethodGet} {
			got := r.ask(t, method, "http://"+web4+"/any/thing?x=1")
			if got.code != 200 || got.header.Get("X-Load-Balancing-Endpoint-Weight") != "2" {
				t.Errorf("%s: %d %v", method, got.code, got.header)
			}
			if empty := got.body == ""; empty != (method == http.MethodHead) {
				t.Errorf("%s: body %q", method, got.body)
			}
		}
	})
}

func TestLateProxy(t *testing.T) {
	t.Run("H17 the proxy is late", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.Close()
			r.svc("web", 31000, "10.200.0.1", "10.200.0.2")
			r.sync(t)
			r.Updated()
			r.Queued()
			time.Sleep(time.Minute)
			got := r.ask(t, http.MethodGet, "http://"+web4+"/")
			body := decode(t, got.body)
			if got.code != 503 || got.header.Get("X-Load-Balancing-Endpoint-Weight") != "2" ||
				body["serviceProxyHealthy"] != false || body["localEndpoints"] != 2.0 {
				t.Errorf("got %d %v %v", got.code, got.header, body)
			}
			r.Updated()
			r.wantWeight(t, web4, 200, "2")
		})
	})
}

func TestChanges(t *testing.T) {
	t.Run("H16 #49 the count drops to zero", func(t *testing.T) {
		r := newRig(t)
		r.svc("web", 31000, "10.200.0.1")
		r.sync(t)
		r.svc("web", 31000)
		r.sync(t)
		r.wantWeight(t, web4, 503, "0")
	})
	t.Run("H19 the port changes", func(t *testing.T) {
		r := newRig(t)
		r.svc("web", 31000, "10.200.0.1")
		r.sync(t)
		r.svc("web", 31001, "10.200.0.1", "10.200.0.2")
		r.sync(t)
		r.want(t, "tcp4 192.0.2.10:31001", "tcp6 [2001:db8:1::10]:31001")
		r.wantWeight(t, "192.0.2.10:31001", 200, "2")
	})
	t.Run("H20 a port moves to another Service", func(t *testing.T) {
		r := newRig(t)
		r.svc("b", 31000, "10.200.0.1")
		r.sync(t)
		r.without("b").svc("a", 31000, "10.200.0.1", "10.200.0.2")
		r.sync(t)
		r.wantWeight(t, web4, 200, "2")
		r.wantChanges(t)
	})
	t.Run("H22 endpoints of a Service without a port", func(t *testing.T) {
		r := newRig(t)
		r.svc("web", 0, "10.200.0.1")
		r.sync(t)
		r.want(t)
	})
	t.Run("sockets that stay are not touched", func(t *testing.T) {
		r := newRig(t)
		r.svc("web", 31000, "10.200.0.1")
		r.sync(t)
		r.svc("web", 31000, "10.200.0.1", "10.200.0.2").svc("api", 31001)
		r.sync(t)
		if r.opens != 4 {
			t.Errorf("%d sockets were opened, want 2 and 2", r.opens)
		}
	})
	t.Run("a Delta from a plan that was not seen is taken as full", func(t *testing.T) {
		r := newRig(t)
		r.svc("web", 31000, "10.200.0.1")
		r.sync(t)
		r.without("web").svc("api", 31001, "10.200.0.1")
		if err := r.Sync(t.Context(), &plan.Delta{New: r.plan(), Base: r.plan()}); err != nil {
			t.Fatal(err)
		}
		r.want(t, "tcp4 192.0.2.10:31001", "tcp6 [2001:db8:1::10]:31001")
	})
}

func TestTwoServicesWantOnePort(t *testing.T) {
	r := newRig(t)
	r.svc("b", 31000, "10.200.0.1")
	r.sync(t)
	r.svc("a", 31000, "10.200.0.1", "10.200.0.2")
	r.sync(t)
	r.wantWeight(t, web4, 200, "1")
	r.wantChanges(t, "a: healthcheck: listen for ns1/a: listen tcp4: address already in use\nhealthcheck: listen for ns1/a: listen tcp6: address already in use")
	r.without("b")
	r.sync(t)
	r.wantWeight(t, web4, 200, "2")
	r.wantChanges(t, "a: ok")
}

func TestPortTaken(t *testing.T) {
	const taken = "web: healthcheck: listen for ns1/web: listen tcp4: address already in use"
	t.Run("H21 #85 served at the next sync after it is free", func(t *testing.T) {
		r := newRig(t)
		r.take(web4, syscall.EADDRINUSE)
		r.svc("web", 31000, "10.200.0.1").svc("api", 31001, "10.200.0.1")
		r.sync(t)
		r.wantChanges(t, taken)
		r.wantWeight(t, "192.0.2.10:31001", 200, "1")
		r.wantWeight(t, web6, 200, "1") // the other address is up
		r.svc("api", 31001, "10.200.0.1", "10.200.0.2")
		r.sync(t)
		r.wantChanges(t) // told once
		r.take(web4, nil)
		r.svc("api", 31001, "10.200.0.1")
		r.sync(t)
		r.wantWeight(t, web4, 200, "1")
		r.wantChanges(t, "web: ok")
	})
	t.Run("H21 served after a while without any sync", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.Close()
			r.take(web4, syscall.EADDRINUSE)
			r.svc("web", 31000, "10.200.0.1")
			r.sync(t)
			time.Sleep(time.Minute)
			r.wantChanges(t, taken)
			r.take(web4, nil)
			time.Sleep(5 * time.Second)
			synctest.Wait()
			r.wantWeight(t, web4, 200, "1")
			r.wantChanges(t, "web: ok")
		})
	})
	t.Run("the port moves while it cannot be opened", func(t *testing.T) {
		r := newRig(t)
		r.take(web4, syscall.EADDRINUSE)
		r.svc("web", 31000, "10.200.0.1")
		r.sync(t)
		r.svc("web", 31001, "10.200.0.1")
		r.sync(t)
		r.wantChanges(t, taken, "web: ok")
		r.take(web4, nil)
	})
	t.Run("the Service goes away meanwhile", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			defer r.Close()
			r.take(web4, syscall.EADDRINUSE)
			r.svc("web", 31000, "10.200.0.1")
			r.sync(t)
			r.without("web")
			r.sync(t)
			r.take(web4, nil)
			time.Sleep(time.Minute)
			r.want(t)
		})
	})
}

func TestSocketBreaks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.Close()
		r.svc("web", 31000, "10.200.0.1")
		r.sync(t)
		r.host.mu.Lock()
		broken := r.open["tcp4 "+web4]
		r.host.mu.Unlock()
		broken.Close()
		synctest.Wait()
		r.want(t, "tcp6 "+web6)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		r.wantWeight(t, web4, 200, "1")
	})
}

func TestAnswerWhileClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		defer r.Close()
		r.svc("web", 31000, "10.200.0.1")
		r.sync(t)
		conn, err := r.dial(t.Context(), "tcp", web4)
		if err != nil {
			t.Fatal(err)
		}
		answer := make(chan string, 1)
		go func() {
			buffer := make([]byte, 4096)
			n, _ := conn.Read(buffer)
			answer <- string(buffer[:n])
		}()
		r.without("web")
		r.sync(t)
		_, _ = conn.Write([]byte("GET / HTTP/1.1\r\nHost: web\r\n\r\n"))
		if got := <-answer; strings.Contains(got, " 200 ") {
			t.Errorf("answered %q, want 503 or nothing", got)
		}
	})
}
