package main

import (
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestEndToEnd runs the agent as its ServiceAccount, with the rights of its manifest, against a
// real control plane. The subtests are steps: each goes on where the one before ended.
func TestEndToEnd(t *testing.T) {
	c := newRealCluster(t)
	c.applyManifests(t)
	c.addNode(t, "node-1", nodeIP, "za")
	c.addNode(t, "node-2", "192.0.2.20", "zb")
	kubeconfig := c.agentConfig(t)
	e := &endToEnd{realCluster: c, flags: []string{
		"setpriv", "--bounding-set", "-all,+net_admin", "--inh-caps", "-all,+net_admin", "--no-new-privs", os.Args[0],
		"-node-name", "node-1", "-source", "kubeconfig=" + kubeconfig, "-pod-interface", "veth*", "-healthz-address", "127.0.0.1:10256",
	}}
	e.agent = startCommand(t, c.lab, e.flags...)
	e.agent.next(t)
	for _, step := range []struct {
		name string
		run  func(*testing.T)
	}{
		{"the API server's own Service", e.apiService},
		{"every type of Service", e.types},
		{"roll", e.roll},
		{"scale to zero and back", e.scale},
		{"terminating under policy Local", e.terminating},
		{"zone and node preferences", e.preferences},
		{"API server restarts", e.restartServer},
		{"agent restarts", e.restartAgent},
	} {
		if !t.Run(step.name, step.run) {
			break
		}
	}
	t.Logf("%d requests under way during changes, %d failures; %d verdicts checked", e.requests, e.failures, e.verdicts)
}

type endToEnd struct {
	*realCluster
	agent *child
	flags []string

	web, edge                    *corev1.Service
	requests, failures, verdicts int
}

func (e *endToEnd) expect(t *testing.T, from, to string, want ...string) {
	t.Helper()
	e.verdicts++
	seen := map[string]bool{}
	eventually(t, func() bool {
		// A dozen answers are taken as all there are.
		clear(seen)
		for range 12 {
			seen[dial(t, e.lab, from, to, timeoutFor(want))] = true
		}
		for _, w := range want {
			if !seen[w] {
				return false
			}
		}
		return len(seen) == len(want)
	}, func() string { return fmt.Sprintf("%s dials %s: %v, want %v", from, to, seen, want) })
}

func (e *endToEnd) count(t *testing.T, tr *traffic) {
	t.Helper()
	requests, failures := tr.end()
	e.requests += requests
	e.failures += failures
	if failures > 0 || requests == 0 {
		t.Errorf("%d of %d requests failed, the last one with %s", failures, requests, tr.last)
	}
}

func at(ip string, port int32) string { return fmt.Sprintf("%s:%d", ip, port) }

func (e *endToEnd) apiService(t *testing.T) {
	t.Helper()
	eventually(t, func() bool {
		code := 0
		// An anonymous client may ask for the version.
		if out := curlFrom(t, e.lab, "pod", "-k", "https://10.96.0.1/version"); strings.Contains(out, "gitVersion") {
			code = http.StatusOK
		}
		return code == http.StatusOK
	}, func() string { return "a pod does not reach the API server by its ClusterIP" })
}

func (e *endToEnd) types(t *testing.T) {
	t.Helper()
	e.addPod(t, "web", podOne)
	e.addPod(t, "web", podTwo)
	e.web = e.addService(t, "web", nil)
	e.expect(t, "pod", at(e.web.Spec.ClusterIP, 80), podOne, podTwo)
	e.expect(t, "node", at(e.web.Spec.ClusterIP, 80), podOne, podTwo)

	e.addPod(t, "edge", podThree)
	e.addPod(t, "edge", elsewhereIP)
	e.edge = e.addService(t, "edge", func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalTrafficPolicy = corev1.ServiceTypeLoadBalancer, corev1.ServiceExternalTrafficPolicyLocal
		s.ExternalIPs = []string{"198.51.100.11"}
	})
	e.edge.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.10"}}
	if _, err := e.CoreV1().Services(metav1.NamespaceDefault).UpdateStatus(t.Context(), e.edge, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	e.expect(t, "pod", at(e.edge.Spec.ClusterIP, 80), podThree, elsewhereIP)
	for _, outside := range []string{"198.51.100.10:80", "198.51.100.11:80", at(nodeIP, e.edge.Spec.Ports[0].NodePort)} {
		e.expect(t, "client", outside, podThree)
		e.expect(t, "pod", outside, podThree, elsewhereIP)
		e.expect(t, "node", outside, podThree, elsewhereIP)
	}
	e.healthPort(t, http.StatusOK, 1)

	nodePort := e.addService(t, "web-nodeport", func(s *corev1.ServiceSpec) {
		s.Type, s.Selector = corev1.ServiceTypeNodePort, map[string]string{"app": "web"}
	})
	e.expect(t, "client", at(nodeIP, nodePort.Spec.Ports[0].NodePort), podOne, podTwo)
	headless := e.addService(t, "headless", func(s *corev1.ServiceSpec) {
		s.ClusterIP, s.Selector = corev1.ClusterIPNone, map[string]string{"app": "web"}
	})
	if headless.Spec.ClusterIP != corev1.ClusterIPNone {
		t.Errorf("ClusterIP %q", headless.Spec.ClusterIP)
	}
	empty := e.addService(t, "empty", nil)
	e.expect(t, "pod", at(empty.Spec.ClusterIP, 80), "refused")
	// An address in the range of Services that none has.
	e.expect(t, "pod", "10.96.255.254:80", "no answer")
}

// healthPort waits for the answer of edge's health-check port.
func (e *endToEnd) healthPort(t *testing.T, wantCode, wantCount int) {
	t.Helper()
	e.verdicts++
	var code int
	var body string
	url := fmt.Sprintf("http://%s:%d/", nodeIP, e.edge.Spec.HealthCheckNodePort)
	eventually(t, func() bool {
		code, _, body = get(t, e.lab, url)
		return code == wantCode && strings.Contains(body, fmt.Sprintf(`"localEndpoints": %d`, wantCount))
	}, func() string { return fmt.Sprintf("health-check port: %d %s", code, body) })
}

// roll replaces every pod of web, as a Deployment does: the new one first.
func (e *endToEnd) roll(t *testing.T) {
	t.Helper()
	address := at(e.web.Spec.ClusterIP, 80)
	tr := e.traffic(t, "pod", address)
	have := []string{podOne, podTwo}
	for _, step := range [][2]string{{podThree, podOne}, {elsewhereIP, podTwo}} {
		e.addPod(t, "web", step[0])
		have = append(have, step[0])
		e.expect(t, "pod", address, have...)
		e.terminate(t, "web", step[1])
		have = slices.DeleteFunc(have, func(ip string) bool { return ip == step[1] })
		e.expect(t, "pod", address, have...)
		e.release(t, "web", step[1])
	}
	e.expect(t, "pod", address, podThree, elsewhereIP)
	e.count(t, tr)
}

func (e *endToEnd) scale(t *testing.T) {
	t.Helper()
	address := at(e.web.Spec.ClusterIP, 80)
	for _, ip := range []string{podThree, elsewhereIP} {
		e.terminate(t, "web", ip)
		e.release(t, "web", ip)
	}
	e.expect(t, "pod", address, "refused")
	e.addPod(t, "web", podOne)
	e.expect(t, "pod", address, podOne)
}

// terminating lets the only local pod of edge terminate: clients outside still get
// it, as the load balancer does not know yet, but its health check fails.
func (e *endToEnd) terminating(t *testing.T) {
	t.Helper()
	tr := e.traffic(t, "client", "198.51.100.10:80")
	e.terminate(t, "edge", podThree)
	e.healthPort(t, http.StatusServiceUnavailable, 0)
	e.expect(t, "client", "198.51.100.10:80", podThree)
	e.expect(t, "pod", "198.51.100.10:80", elsewhereIP)
	e.count(t, tr)
	e.release(t, "edge", podThree)
	e.expect(t, "client", "198.51.100.10:80", "no answer")
	e.addPod(t, "edge", podTwo)
	e.expect(t, "client", "198.51.100.10:80", podTwo)
	e.healthPort(t, http.StatusOK, 1)
}

func (e *endToEnd) preferences(t *testing.T) {
	t.Helper()
	e.addPod(t, "zoned", podOne)
	e.addPod(t, "zoned", elsewhereIP)
	for _, preference := range []string{corev1.ServiceTrafficDistributionPreferClose, "PreferSameNode"} {
		svc := e.addService(t, strings.ToLower(preference), func(s *corev1.ServiceSpec) {
			s.Selector, s.TrafficDistribution = map[string]string{"app": "zoned"}, &preference
		})
		e.expect(t, "pod", at(svc.Spec.ClusterIP, 80), podOne)
	}
}

func (e *endToEnd) restartServer(t *testing.T) {
	t.Helper()
	address := at(e.web.Spec.ClusterIP, 80)
	tr := e.traffic(t, "pod", address)
	e.controlPlane(t, "restart")
	eventually(t, func() bool { _, err := e.Discovery().ServerVersion(); return err == nil }, func() string { return "no API server" })
	e.addPod(t, "web", podTwo)
	e.expect(t, "pod", address, podOne, podTwo)
	e.count(t, tr)
}

func (e *endToEnd) restartAgent(t *testing.T) {
	t.Helper()
	address := at(e.web.Spec.ClusterIP, 80)
	tr := e.traffic(t, "pod", address)
	e.agent.signal(t, syscall.SIGTERM)
	if code := e.agent.wait(t); code != exitOK {
		t.Errorf("code %d", code)
	}
	e.agent = startCommand(t, e.lab, e.flags...)
	if r := e.agent.next(t); !r.full || r.statements != 0 || r.failed != 0 {
		t.Errorf("first round after the restart: %+v", r)
	}
	e.addPod(t, "web", podThree)
	e.expect(t, "pod", address, podOne, podTwo, podThree)
	e.count(t, tr)
}
