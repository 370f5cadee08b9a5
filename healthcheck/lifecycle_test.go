package healthcheck_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/backends/fake"
	"github.com/vipkit/vipkit/healthcheck"
	"github.com/vipkit/vipkit/proxy"
	"github.com/vipkit/vipkit/proxy/plan"
)

func TestClose(t *testing.T) {
	t.Run("#48 stop and start with another set of Services", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { // which fails if a goroutine is left over
			r := newRig(t)
			r.svc("a", 31000, "10.200.0.1").svc("b", 31001, "10.200.0.2").svc("c", 31002, "10.200.0.3")
			r.sync(t)
			r.Close()
			r.want(t)
			if err := r.Sync(t.Context(), plan.Full(r.plan())); !errors.Is(err, healthcheck.ErrClosed) {
				t.Errorf("Sync after Close = %v, want ErrClosed", err)
			}
			r.without("b").svc("c", 31002, "10.200.0.3", "10.200.0.4")
			r.selectAddresses(t, "192.0.2.0/24")
			r.start(t)
			r.sync(t)
			r.want(t, "tcp4 192.0.2.10:31000", "tcp4 192.0.2.10:31002")
			r.wantWeight(t, "192.0.2.10:31002", 200, "2")
			r.Close()
			r.Close()
		})
	})
	t.Run("while a socket is missing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t)
			r.take(web4, syscall.EADDRINUSE)
			r.svc("web", 31000, "10.200.0.1")
			r.sync(t)
			r.Close()
			r.take(web4, nil)
			time.Sleep(time.Hour)
			r.want(t)
		})
	})
}

func TestNewServicesWithoutLoop(t *testing.T) {
	if _, err := healthcheck.NewServices(healthcheck.ServicesOptions{}); err == nil {
		t.Error("no error, want one about Loop")
	}
}

func TestServe(t *testing.T) {
	const address = "0.0.0.0:10256"
	t.Run("#85 no address", func(t *testing.T) {
		if err := healthcheck.New(healthcheck.Options{}).Serve(t.Context(), healthcheck.ServeOptions{}); err != nil {
			t.Error(err)
		}
	})
	t.Run("#85 the port is taken: told and tried again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHost()
			h.take(address, syscall.EADDRINUSE)
			var failures []string
			stop := serve(t, healthcheck.ServeOptions{
				Address: address, Listen: h.listen,
				Failed: func(err error) { failures = append(failures, err.Error()) },
			})
			time.Sleep(7 * time.Second)
			h.take(address, nil)
			time.Sleep(5 * time.Second)
			if got := h.ask(t, http.MethodGet, "http://"+address+"/livez"); got.code != 200 {
				t.Errorf("answered %d, want 200", got.code)
			}
			if len(failures) != 2 || failures[0] != "healthcheck: serve 0.0.0.0:10256: listen tcp: address already in use" {
				t.Errorf("told %q, want it twice", failures)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			h.want(t)
		})
	})
	t.Run("#85 hard failure", func(t *testing.T) {
		h := newHost()
		h.take(address, syscall.EADDRINUSE)
		err := healthcheck.New(healthcheck.Options{}).Serve(t.Context(),
			healthcheck.ServeOptions{Address: address, Listen: h.listen, HardFail: true})
		if !errors.Is(err, syscall.EADDRINUSE) {
			t.Errorf("Serve = %v, want EADDRINUSE", err)
		}
	})
	t.Run("ended while it waits", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHost()
			h.take(address, syscall.EADDRINUSE)
			stop := serve(t, healthcheck.ServeOptions{Address: address, Listen: h.listen})
			synctest.Wait()
			if err := stop(); err != nil {
				t.Error(err)
			}
		})
	})
}

// serve runs Serve until stop is called.
func serve(t *testing.T, opts healthcheck.ServeOptions) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- healthcheck.New(healthcheck.Options{}).Serve(ctx, opts) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	t.Cleanup(func() { _ = stop() })
	return stop
}

func TestBehindProxy(t *testing.T) {
	t.Run("#50 #5 H18 rules are not written", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h := newHost()
			health := healthcheck.New(healthcheck.Options{NodeEligible: func() bool { return false }})
			services, err := healthcheck.NewServices(healthcheck.ServicesOptions{Loop: health.Loop("vipkit"), Listen: h.listen})
			if err != nil {
				t.Fatal(err)
			}
			defer services.Close()
			backend := &fake.Backend{}
			p := newProxy(t, backend, services)
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- p.Run(ctx) }()
			time.Sleep(time.Second)
			h.wantWeight(t, web4, 200, "1")

			broken := errors.New("kernel says no")
			backend.OnSync(func(context.Context, *plan.Delta) error { return broken })
			p.SetEndpointSlice(webSlice("10.200.0.1", "10.200.0.2"))
			time.Sleep(59 * time.Second)
			h.wantWeight(t, web4, 200, "1")
			time.Sleep(time.Second)
			synctest.Wait()
			h.wantWeight(t, web4, 503, "1")
			if got := h.ask(t, http.MethodGet, "http://"+web4+"/"); !strings.Contains(got.body, `"serviceProxyHealthy": false`) {
				t.Errorf("body %s", got.body)
			}
			backend.OnSync(nil)
			time.Sleep(2 * time.Minute)
			h.wantWeight(t, web4, 200, "2")
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	})
}

func newProxy(t *testing.T, backend *fake.Backend, services *healthcheck.Services) *proxy.Proxy {
	t.Helper()
	p, err := proxy.New(proxy.Options{
		Backend:   backend,
		Consumers: []proxy.Consumer{{Name: "health", Syncer: services}},
		Config:    newWorld().cfg,
	})
	if err != nil {
		t.Fatal(err)
	}
	p.ReplaceServices([]*corev1.Service{webService()})
	p.ReplaceEndpointSlices([]*discoveryv1.EndpointSlice{webSlice("10.200.0.1")})
	return p
}

func webService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns1", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.50", ClusterIPs: []string{"10.96.0.50"},
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: 31000,
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80, NodePort: 30080}},
		},
	}
}

func webSlice(ips ...string) *discoveryv1.EndpointSlice {
	name, port, protocol, node := "http", int32(8080), corev1.ProtocolTCP, "n1"
	s := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "ns1", Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	for _, ip := range ips {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{ip}, NodeName: &node})
	}
	return s
}
