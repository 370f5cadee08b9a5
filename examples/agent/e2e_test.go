package main

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

// TestEndToEnd runs the agent as the DaemonSet's container, with its ServiceAccount and
// rights, against a real control plane. The subtests are steps: each goes on where the one before
// ended.
func TestEndToEnd(t *testing.T) {
	c := newRealCluster(t)
	c.applyManifests(t)
	c.addNode(t, "node-1", nodeIP, "za")
	c.addNode(t, "node-2", "192.0.2.20", "zb")
	c.addNode(t, "node-3", "192.0.2.21", "za")
	for _, ip := range []string{podOne, podTwo, podThree, elsewhereIP, neighbourIP} {
		c.serve(t, ip, +1)
		c.serve(t, ip, -1) // nobody listens before there is a Pod
	}
	e := &endToEnd{realCluster: c, whole: t}
	e.command, e.env = c.agentCommand(t, "node-1")
	e.startAgent(t)
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
		{"back to kube-proxy, and away from it again", e.replaceKubeProxy},
	} {
		if !t.Run(step.name, step.run) {
			break
		}
	}
	if log := e.agent.text(); strings.Contains(log, "left out") || strings.Contains(log, "round failed") {
		t.Errorf("the agent's log:\n%s", log)
	}
	t.Logf("%d requests under way during changes, %d failures; %d verdicts checked; a health-check port asked %d times",
		e.requests, e.failures, e.verdicts, e.health.asked)
}

type endToEnd struct {
	*realCluster
	whole        *testing.T // what the steps are part of
	agent        *child
	command, env []string

	web, webNodePort, edge *corev1.Service
	health                 *poll // of edge

	requests, failures, verdicts int
}

// startAgent starts the agent and returns its first round.
func (e *endToEnd) startAgent(t *testing.T) round {
	t.Helper()
	e.agent = startCommand(e.whole, e.lab, e.env, e.command...)
	return e.agent.next(t)
}

// stopAgent ends it, which leaves the rules.
func (e *endToEnd) stopAgent(t *testing.T) {
	t.Helper()
	e.agent.signal(t, syscall.SIGTERM)
	if code := e.agent.wait(t); code != exitOK {
		t.Errorf("code %d", code)
	}
}

// enoughDials is how many answers are taken as all there are: with three endpoints one is
// missed once in a million times.
const enoughDials = 40

// expect dials until who answers is exactly as wanted.
func (e *endToEnd) expect(t *testing.T, w way, want ...string) {
	t.Helper()
	e.verdicts++
	dials := enoughDials
	if !slices.ContainsFunc(want, isAddress) {
		dials = 3 // one of many would be enough
	}
	seen := map[string]bool{}
	eventually(t, func() bool {
		clear(seen)
		for range dials {
			seen[dial(t, e.lab, w.from, w.to, timeoutFor(want))] = true
		}
		return len(seen) == len(want) && !slices.ContainsFunc(want, func(one string) bool { return !seen[one] })
	}, func() string { return fmt.Sprintf("%s dials %s: %v, want %v", w.from, w.to, seen, want) })
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// count ends the traffic and wants no failure in it.
func (e *endToEnd) count(t *testing.T, all []*traffic) {
	t.Helper()
	for _, tr := range all {
		tr.end()
		e.requests += tr.requests
		e.failures += tr.failures
		if tr.failures > 0 || tr.requests == 0 {
			t.Errorf("%s dials %s: %d of %d requests failed, the last one with %s", tr.from, tr.to, tr.failures, tr.requests, tr.last)
		}
	}
}

func at(ip string, port int32) string { return fmt.Sprintf("%s:%d", ip, port) }

func clusterIPOf(svc *corev1.Service) string { return at(svc.Spec.ClusterIP, 80) }

func nodePortOf(svc *corev1.Service) string { return at(nodeIP, svc.Spec.Ports[0].NodePort) }

// webWays are how the pods of app web are reached: from a pod, from the node, and from outside.
func (e *endToEnd) webWays() []way {
	return []way{
		{"pod", clusterIPOf(e.web)},
		{netlab.NodeName, clusterIPOf(e.web)},
		{"client", nodePortOf(e.webNodePort)},
	}
}

// expectWeb waits until all of them lead to exactly these pods.
func (e *endToEnd) expectWeb(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range e.webWays() {
		e.expect(t, w, want...)
	}
}

func (e *endToEnd) apiService(t *testing.T) {
	t.Helper()
	var out string
	eventually(t, func() bool {
		// An anonymous client may ask for the version.
		out = curlFrom(t, e.lab, "pod", "-k", "https://10.96.0.1/version")
		return strings.Contains(out, "gitVersion")
	}, func() string { return "a pod does not reach the API server by its ClusterIP: " + out })
}

func (e *endToEnd) types(t *testing.T) {
	t.Helper()
	web := map[string]string{"app": "web"}
	e.addPod(t, "web", podOne)
	e.addPod(t, "web", podTwo)
	e.web = e.addService(t, "web", nil)
	e.webNodePort = e.addService(t, "web-nodeport", func(s *corev1.ServiceSpec) {
		s.Type, s.Selector = corev1.ServiceTypeNodePort, web
	})
	e.expectWeb(t, podOne, podTwo)
	e.expect(t, way{"client", clusterIPOf(e.web)}, podOne, podTwo)
	e.expect(t, way{"pod", clusterIPOf(e.webNodePort)}, podOne, podTwo)
	e.expect(t, way{netlab.NodeName, nodePortOf(e.webNodePort)}, podOne, podTwo)
	e.loadBalancer(t)

	headless := e.addService(t, "headless", func(s *corev1.ServiceSpec) { s.ClusterIP, s.Selector = corev1.ClusterIPNone, web })
	name := e.addService(t, "name", func(s *corev1.ServiceSpec) {
		s.Type, s.ExternalName, s.Selector = corev1.ServiceTypeExternalName, "example.com", nil
	})
	if headless.Spec.ClusterIP != corev1.ClusterIPNone || name.Spec.ClusterIP != "" {
		t.Errorf("ClusterIPs %q and %q", headless.Spec.ClusterIP, name.Spec.ClusterIP)
	}
	empty := e.addService(t, "empty", nil)
	for _, from := range []string{"pod", netlab.NodeName, "client"} {
		e.expect(t, way{from, clusterIPOf(empty)}, netlab.Refused.String())
		// An address in the range of Services that none has.
		e.expect(t, way{from, "10.96.255.254:80"}, netlab.NoAnswer.String())
	}
}

// loadBalancer makes edge, whose policy is Local: clients outside get its only pod of this node.
func (e *endToEnd) loadBalancer(t *testing.T) {
	t.Helper()
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
	e.expect(t, way{"pod", clusterIPOf(e.edge)}, podThree, elsewhereIP)
	for _, outside := range []string{"198.51.100.10:80", "198.51.100.11:80", nodePortOf(e.edge)} {
		e.expect(t, way{"client", outside}, podThree)
		e.expect(t, way{"pod", outside}, podThree, elsewhereIP)
		e.expect(t, way{netlab.NodeName, outside}, podThree, elsewhereIP)
	}
	e.healthPort(t, http.StatusOK, 1)
	e.health = startPoll(e.whole, e.lab, e.edge.Spec.HealthCheckNodePort)
}

// healthPort waits for the answer of edge's health-check port.
func (e *endToEnd) healthPort(t *testing.T, wantCode, wantCount int) {
	t.Helper()
	e.verdicts++
	var code int
	var body string
	url := fmt.Sprintf("http://%s:%d/", nodeIP, e.edge.Spec.HealthCheckNodePort)
	eventually(t, func() bool {
		out := curlFrom(t, e.lab, "client", "-w", "%{http_code}", url)
		body, code = out[:max(0, len(out)-3)], 0
		_, _ = fmt.Sscan(out[len(body):], &code)
		return code == wantCode && strings.Contains(body, fmt.Sprintf(`"localEndpoints": %d,`, wantCount))
	}, func() string { return fmt.Sprintf("health-check port: %d %s", code, body) })
}

// roll replaces every pod of web one by one, as a Deployment does: the new one first. An old
// one serves until the agent has seen that it is going, and then no longer.
func (e *endToEnd) roll(t *testing.T) {
	t.Helper()
	tr := startTraffic(t, e.lab, e.webWays()...)
	have := []string{podOne, podTwo}
	for _, step := range [][2]string{{podThree, podOne}, {elsewhereIP, podTwo}} {
		e.addPod(t, "web", step[0])
		have = append(have, step[0])
		e.expectWeb(t, have...)
		e.terminate(t, "web", step[1])
		have = slices.DeleteFunc(have, func(ip string) bool { return ip == step[1] })
		e.expectWeb(t, have...)
		e.release(t, "web", step[1])
	}
	e.expectWeb(t, podThree, elsewhereIP)
	e.count(t, tr)
}

// scale goes to zero and back, with a client that sends datagrams from one socket.
func (e *endToEnd) scale(t *testing.T) {
	t.Helper()
	conn, res, err := e.lab.Open(netlab.Probe{
		From: "pod", Destination: netip.MustParseAddrPort(clusterIPOf(e.web)), Protocol: corev1.ProtocolUDP,
	})
	if err != nil || conn == nil {
		t.Fatalf("datagram: %v, %v", res.Outcome, err)
	}
	for _, ip := range []string{podThree, elsewhereIP} {
		e.terminate(t, "web", ip)
		e.release(t, "web", ip)
	}
	e.expectWeb(t, netlab.Refused.String())
	// edge still uses both addresses, so only the flow's end can make this fail.
	eventually(t, func() bool { return conn.Ping(time.Second) != nil }, func() string { return "datagrams still reach a pod that is gone" })
	e.addPod(t, "web", podOne)
	e.expectWeb(t, podOne)
	eventually(t, func() bool { return conn.Ping(time.Second) == nil }, func() string { return "datagrams do not reach the new pod" })
	e.verdicts += 2
}

// terminating lets the only local pod of edge terminate: clients outside still get
// it, as the load balancer does not know yet, but its health check fails.
func (e *endToEnd) terminating(t *testing.T) {
	t.Helper()
	outside := way{"client", "198.51.100.10:80"}
	tr := startTraffic(t, e.lab, outside)
	e.terminate(t, "edge", podThree)
	e.healthPort(t, http.StatusServiceUnavailable, 0)
	e.expect(t, outside, podThree)
	e.expect(t, way{"pod", outside.to}, elsewhereIP)
	e.count(t, tr)
	e.release(t, "edge", podThree)
	e.expect(t, outside, netlab.NoAnswer.String())
	e.addPod(t, "edge", podTwo)
	e.expect(t, outside, podTwo)
	e.healthPort(t, http.StatusOK, 1)
}

// preferences has one pod on this node, one in its zone, and one in another zone.
func (e *endToEnd) preferences(t *testing.T) {
	t.Helper()
	for _, ip := range []string{podOne, neighbourIP, elsewhereIP} {
		e.addPod(t, "zoned", ip)
	}
	add := func(name, preference string) *corev1.Service {
		return e.addService(t, name, func(s *corev1.ServiceSpec) {
			s.Selector, s.TrafficDistribution = map[string]string{"app": "zoned"}, &preference
		})
	}
	zone, node := add("same-zone", corev1.ServiceTrafficDistributionPreferClose), add("same-node", "PreferSameNode")
	e.expect(t, way{"pod", clusterIPOf(zone)}, podOne, neighbourIP)
	e.expect(t, way{"pod", clusterIPOf(node)}, podOne)
	e.wantHints(t, "same-zone", false)
	e.wantHints(t, "same-node", true)

	e.terminate(t, "zoned", podOne)
	e.expect(t, way{"pod", clusterIPOf(zone)}, neighbourIP)
	e.expect(t, way{"pod", clusterIPOf(node)}, neighbourIP)
	e.release(t, "zoned", podOne)
}

// wantHints checks that each endpoint has a hint of the controller for its own zone, and for
// its own node if the Service prefers that.
func (e *endToEnd) wantHints(t *testing.T, svc string, forNode bool) {
	t.Helper()
	list, err := e.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).List(t.Context(),
		metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + svc})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, slice := range list.Items {
		for _, ep := range slice.Endpoints {
			n++
			h := ep.Hints
			if h == nil || len(h.ForZones) != 1 || h.ForZones[0].Name != *ep.Zone ||
				forNode != (len(h.ForNodes) == 1) || forNode && h.ForNodes[0].Name != *ep.NodeName {
				t.Errorf("%s: endpoint %v has hints %v", svc, ep.Addresses, h)
			}
		}
	}
	if n != 3 {
		t.Errorf("%s: %d endpoints, want 3", svc, n)
	}
}

func (e *endToEnd) restartServer(t *testing.T) {
	t.Helper()
	tr := startTraffic(t, e.lab, e.webWays()...)
	e.controlPlane(t, "restart")
	eventually(t, func() bool { _, err := e.Discovery().ServerVersion(); return err == nil }, func() string { return "no API server" })
	e.addPod(t, "web", podTwo)
	e.expectWeb(t, podOne, podTwo)
	e.count(t, tr)
}

func (e *endToEnd) restartAgent(t *testing.T) {
	t.Helper()
	// Its port is closed while no agent runs.
	e.health.check(t, "200, 1 endpoint", "503, 0 endpoint", "200, 1 endpoint")
	tr := startTraffic(t, e.lab, e.webWays()...)
	e.stopAgent(t)
	if r := e.startAgent(t); !r.full || r.statements != 0 || r.failed != 0 {
		t.Errorf("first round after the restart: %+v", r)
	}
	e.addPod(t, "web", podThree)
	e.expectWeb(t, podOne, podTwo, podThree)
	e.healthPort(t, http.StatusOK, 1)
	e.count(t, tr)
}
