package healthcheck_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/healthcheck"
	"github.com/vipkit/vipkit/proxy/plan"
)

// The node is about to be deleted: no new connections, but no reason to restart.
func ExampleEligible() {
	var eligible atomic.Bool
	h := healthcheck.New(healthcheck.Options{NodeEligible: eligible.Load})
	node := &corev1.Node{}
	node.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}}
	eligible.Store(healthcheck.Eligible(node)) // at each event of the Node

	for _, path := range []string{healthcheck.PathHealthz, healthcheck.PathLivez} {
		w := httptest.NewRecorder()
		h.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// /healthz 503
	// /livez 200
}

// A proxy does this by itself if it is given the Services as a consumer.
func ExampleServices() {
	lan := newHost() // for this example; leave Listen out to have real sockets
	h := healthcheck.New(healthcheck.Options{})
	s, err := healthcheck.NewServices(healthcheck.ServicesOptions{Loop: h.Loop("vipkit"), Listen: lan.listen})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()
	p := newWorld().svc("web", 31000, "10.200.0.1", "10.200.0.2").plan()
	_ = s.Sync(context.Background(), plan.Full(p)) // it can fail after Close only
	client := http.Client{Transport: &http.Transport{DialContext: lan.dial}}
	res, err := client.Get("http://192.0.2.10:31000/")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	fmt.Println(res.StatusCode, res.Header.Get("X-Load-Balancing-Endpoint-Weight"))
	// Output:
	// 200 2
}
