package ipvs_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/ipvs"
	"github.com/vipkit/vipkit/proxy/plan"
	"github.com/vipkit/vipkit/proxy/service"
)

// What the table in the documentation says of affinity: each frontend has its own.
func TestAffinityOfEachFrontend(t *testing.T) {
	w := newWorld(t, ipvs.Options{})
	w.sync(with(app{name: "web", vip: "10.96.0.10", eps: both, change: func(s *service.Service) {
		external("198.51.100.9")(s)
		s.AffinityTimeout = time.Minute
	}}))
	for _, at := range []string{"10.96.0.10:80", "198.51.100.9:80"} {
		v, err := w.ipvs.Server(tcp(at))
		if err != nil {
			t.Fatal(err)
		}
		if v.Persistence != time.Minute {
			t.Errorf("%s: persistence %s, want a minute", at, v.Persistence)
		}
	}
}

// A policy that nothing asks for yet, and that marks cannot express, is an error of its port.
func TestMasqueradedPoolOfPods(t *testing.T) {
	w := newWorld(t, ipvs.Options{})
	f := plan.Frontend{Kind: plan.ExternalIP, Addr: addr("198.51.100.9"), Port: 80}
	f.Actions[plan.FromOutside] = plan.Action{Verdict: plan.Forward, Pool: plan.LocalPool}
	f.Actions[plan.FromPod] = plan.Action{Verdict: plan.Forward, Pool: plan.ClusterPool, Masquerade: true}
	port := &plan.Port{Frontends: []plan.Frontend{f}}
	port.Protocol, port.Family = corev1.ProtocolTCP, corev1.IPv4Protocol
	if err := w.backend.Compile(w.plan, port); err == nil || !strings.Contains(err.Error(), "not possible") {
		t.Errorf("Compile() = %v, want that it is not possible", err)
	}
}
