package main

import (
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

func TestIPTables(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	plane := dataPlanes()[1]
	onNodeRun(t, lab, "iptables", "-t", "nat", "-N", "FOREIGN")
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	code, r := once(t, lab, plane.args(dir)...)
	if code != exitOK || !r.full || r.changes != 2 || r.statements == 0 || r.failed != 0 {
		t.Errorf("-once: code %d, round %+v", code, r)
	}
	expect(t, lab, clusterIP(10), podOne)
	if code, r = once(t, lab, plane.args(dir)...); code != exitOK || r.statements != 0 {
		t.Errorf("-once again: code %d, round %+v, want nothing to be written", code, r)
	}

	c := start(t, lab, plane.args(dir, "-metrics-address", "127.0.0.1:10249")...)
	c.next(t)
	write(t, dir, "web.yaml", service("web", 10, "", podTwo))
	expect(t, lab, clusterIP(10), podTwo)
	if _, body := get(t, lab, "http://127.0.0.1:10249/proxyMode"); body != "iptables" {
		t.Errorf("proxyMode %q", body)
	}
	_, body := get(t, lab, "http://127.0.0.1:10249/metrics")
	if want := "\nkubeproxy_sync_proxy_rules_iptables_restore_failures_total 0\n"; !strings.Contains(body, want) {
		t.Errorf("/metrics has no line %q", want)
	}
	c.signal(t, syscall.SIGTERM)
	if code := c.wait(t); code != exitOK {
		t.Errorf("SIGTERM: code %d", code)
	}
	if got := dial(t, lab, "pod", clusterIP(10), 0); got != podTwo {
		t.Errorf("after SIGTERM: %s", got)
	}
	if code := start(t, lab, "-cleanup", "-backend", "iptables").wait(t); code != exitOK {
		t.Errorf("-cleanup: code %d", code)
	}
	if left := chains(t, lab); left != "" {
		t.Errorf("after -cleanup:\n%s", left)
	}
	if all := onNodeRun(t, lab, "iptables-save", "-t", "nat"); !strings.Contains(all, ":FOREIGN ") {
		t.Errorf("a chain of others is gone:\n%s", all)
	}
}

// TestSwitchBackends goes from one backend to the other and back as README.md says, while others
// dial all the time and a connection from before stays open.
func TestSwitchBackends(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	write(t, dir, "web.yaml", service("web", 10, "  type: NodePort\n  externalIPs: [198.51.100.10]", podOne))
	planes := dataPlanes()
	c := start(t, lab, planes[0].args(dir)...)
	expect(t, lab, clusterIP(10), podOne)
	conns := []*netlab.Conn{open(t, lab, clusterIP(10), corev1.ProtocolTCP)}
	all := startTraffic(t, lab, way{"pod", clusterIP(10)}, way{"client", "198.51.100.10:80"}, way{netlab.NodeName, clusterIP(10)})
	for _, to := range []int{1, 0} {
		c.signal(t, syscall.SIGTERM)
		if code := c.wait(t); code != exitOK {
			t.Errorf("SIGTERM: code %d", code)
		}
		c = start(t, lab, planes[to].args(dir)...)
		if r := c.next(t); r.statements == 0 || r.failed != 0 {
			t.Errorf("to %s: round %+v", planes[to].backend, r)
		}
		if code := start(t, lab, "-cleanup", "-backend", planes[1-to].backend).wait(t); code != exitOK {
			t.Errorf("-cleanup: code %d", code)
		}
		if got, want := chains(t, lab) != "", planes[to].backend == backendIPTables; got != want {
			t.Errorf("to %s: there are chains: %t", planes[to].backend, got)
		}
		if got, want := isThere(t, lab, planes[0]), planes[to].backend == backendNFTables; got != want {
			t.Errorf("to %s: there are tables: %t", planes[to].backend, got)
		}
		expect(t, lab, clusterIP(10), podOne)
		conns = append(conns, open(t, lab, clusterIP(10), corev1.ProtocolTCP))
		for _, conn := range conns {
			if err := conn.Ping(patience); err != nil {
				t.Errorf("to %s: an open connection: %v", planes[to].backend, err)
			}
		}
	}
	for _, tr := range all {
		if tr.end(); tr.failures > 0 || tr.requests == 0 {
			t.Errorf("%s dials %s: %d of %d requests failed, the last one with %s", tr.from, tr.to, tr.failures, tr.requests, tr.last)
		}
	}
}
