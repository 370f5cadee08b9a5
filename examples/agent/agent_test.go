package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

// args are the flags that all tests in a lab use.
func args(dir string, more ...string) []string {
	return append([]string{
		"-node-name", "node-1", "-source", "dir=" + dir, "-node-ip", nodeIP, "-pod-interface", "veth*", "-min-sync", "10ms",
	}, more...)
}

func TestOnce(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	code, r := once(t, lab, args(dir)...)
	if code != exitOK || !r.full || r.changes != 2 || r.statements == 0 || r.failed != 0 {
		t.Errorf("first: code %d, round %+v", code, r)
	}
	expect(t, lab, clusterIP(10), podOne)
	code, r = once(t, lab, args(dir)...)
	if code != exitOK || !r.full || r.statements != 0 || r.failed != 0 {
		t.Errorf("again: code %d, round %+v, want nothing to be written", code, r)
	}
	write(t, dir, "web.yaml", service("web", 10, "", podTwo))
	if code, r = once(t, lab, args(dir)...); code != exitOK || r.statements == 0 {
		t.Errorf("after a change: code %d, round %+v", code, r)
	}
	expect(t, lab, clusterIP(10), podTwo)

	write(t, dir, "broken.yaml", "kind: [")
	if code, r = once(t, lab, args(dir)...); code != exitFailed || r != (round{}) {
		t.Errorf("with a broken file: code %d, round %+v, want no round", code, r)
	}
	expect(t, lab, clusterIP(10), podTwo)
}

func TestOnceWithoutNFT(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	t.Setenv("PATH", t.TempDir())
	c := start(t, lab, args(dir, "-once")...)
	if code := c.wait(t); code != exitFailed || !strings.Contains(c.text(), "the nft program is missing") {
		t.Errorf("code %d, log %s", code, c.text())
	}
}

func TestStopLeavesRulesAndCleanupRemovesThem(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	nft(t, lab, "add", "table", "ip", "foreign")
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	c := start(t, lab, args(dir)...)
	c.next(t)
	c.signal(t, syscall.SIGTERM)
	if code := c.wait(t); code != exitOK {
		t.Errorf("SIGTERM: code %d", code)
	}
	if got := dial(t, lab, "pod", clusterIP(10), 0); got != podOne {
		t.Errorf("after SIGTERM: %s", got)
	}
	if code := start(t, lab, "-cleanup").wait(t); code != exitOK {
		t.Errorf("-cleanup: code %d", code)
	}
	if got := strings.TrimSpace(nft(t, lab, "list", "tables")); got != "table ip foreign" {
		t.Errorf("after -cleanup: %q", got)
	}
	if code := start(t, lab, "-cleanup").wait(t); code != exitOK {
		t.Errorf("-cleanup again: code %d", code)
	}
}

func TestFollowFolder(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	c := start(t, lab, args(dir)...)
	expect(t, lab, clusterIP(10), podOne)

	write(t, dir, "web.yaml", service("web", 10, "", podTwo))
	expect(t, lab, clusterIP(10), podTwo)

	// What cannot be read keeps its last objects, and stops nobody else.
	write(t, dir, "web.yaml", service("web", 10, "", podThree)+"---\nkind: [")
	write(t, dir, "api.yaml", service("api", 11, "", podThree))
	expect(t, lab, clusterIP(11), podThree)
	if got := dial(t, lab, "pod", clusterIP(10), 0); got != podTwo {
		t.Errorf("with a broken file: %s, want %s", got, podTwo)
	}
	write(t, dir, "web.yaml", service("web", 10, "", podThree))
	expect(t, lab, clusterIP(10), podThree)

	write(t, dir, "web.yaml", service("web", 10, ""))
	expect(t, lab, clusterIP(10), netlab.Refused.String())
	if err := os.Remove(filepath.Join(dir, "api.yaml")); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return !strings.Contains(nft(t, lab, "list", "table", "ip", "vipkit"), "10.96.0.11") },
		func() string { return "the Service whose file was removed stays" })

	for r := c.next(t); len(c.rounds) > 0; r = c.next(t) {
		if r.failed != 0 {
			t.Errorf("round %+v", r)
		}
	}
}

func TestTableName(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	if code, _ := once(t, lab, args(dir, "-table", "other")...); code != exitOK {
		t.Fatalf("code %d", code)
	}
	if got := nft(t, lab, "list", "tables"); got != "table ip other\ntable ip6 other\n" {
		t.Errorf("tables %q", got)
	}
	if code := start(t, lab, "-cleanup", "-table", "other").wait(t); code != exitOK {
		t.Errorf("-cleanup: code %d", code)
	}
	if got := nft(t, lab, "list", "tables"); got != "" {
		t.Errorf("tables %q", got)
	}
}

// get asks a server on the node.
func get(t *testing.T, lab *netlab.Lab, url string) (code int, header http.Header, body string) {
	t.Helper()
	onNode(t, lab, func() error {
		// curl runs in the namespace of the node, a client of our own might not.
		out, err := exec.Command("curl", "-s", "-i", "--max-time", "5", url).Output()
		if err != nil {
			return fmt.Errorf("curl %s: %w", url, err)
		}
		head, rest, _ := strings.Cut(string(out), "\r\n\r\n")
		lines := strings.Split(head, "\r\n")
		if _, err := fmt.Sscanf(lines[0], "HTTP/1.1 %d", &code); err != nil {
			return fmt.Errorf("%s: %w", lines[0], err)
		}
		header, body = http.Header{}, rest
		for _, line := range lines[1:] {
			k, v, _ := strings.Cut(line, ": ")
			header.Add(k, v)
		}
		return nil
	})
	return code, header, body
}

func TestHealthAndMetrics(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	write(t, dir, "web.yaml", service("web", 10, "  type: LoadBalancer\n  externalTrafficPolicy: Local\n  healthCheckNodePort: 32000\n"+
		"status: {loadBalancer: {ingress: [{ip: 198.51.100.10}]}}", podOne, podTwo, elsewhereIP))
	write(t, dir, "far.yaml", service("far", 11, "  internalTrafficPolicy: Local", elsewhereIP))
	write(t, dir, "node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n")
	c := start(t, lab, args(dir, "-healthz-address", "127.0.0.1:10256", "-metrics-address", "127.0.0.1:10249")...)
	c.next(t)

	code, header, body := get(t, lab, "http://"+nodeIP+":32000/any")
	if code != http.StatusOK || header.Get("X-Load-Balancing-Endpoint-Weight") != "2" || !strings.Contains(body, `"localEndpoints": 2`) {
		t.Errorf("health-check port: %d %v %s", code, header, body)
	}
	for _, path := range []string{":10256/healthz", ":10256/livez", ":10249/healthz", ":10249/livez"} {
		if code, header, body = get(t, lab, "http://127.0.0.1"+path); code != http.StatusOK ||
			header.Get("Content-Type") != "application/json" || !strings.Contains(body, `"healthy":true`) {
			t.Errorf("%s: %d %v %s", path, code, header, body)
		}
	}
	if _, _, body = get(t, lab, "http://127.0.0.1:10249/proxyMode"); body != "nftables" {
		t.Errorf("proxyMode %q", body)
	}
	_, _, body = get(t, lab, "http://127.0.0.1:10249/metrics")
	for _, want := range []string{
		"kubeproxy_sync_proxy_rules_duration_seconds_count 1",
		"kubeproxy_sync_full_proxy_rules_duration_seconds_count 1",
		"kubeproxy_sync_proxy_rules_service_changes_total 2",
		"kubeproxy_sync_proxy_rules_endpoint_changes_total 2",
		"kubeproxy_sync_proxy_rules_endpoint_changes_pending 0",
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="internal"} 2`,
		`kubeproxy_sync_proxy_rules_no_local_endpoints_total{ip_family="IPv4",traffic_policy="external"} 0`,
		`kubeproxy_proxy_healthz_total{code="200"} 2`,
		`vipkit_service_ports{ip_family="IPv4"} 4`,
	} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("/metrics has no line %q:\n%s", want, body)
		}
	}

	// A node that is about to go gets no new connections, and its proxy stays.
	write(t, dir, "node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n"+
		"spec: {taints: [{key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}]}\n")
	eventually(t, func() bool {
		code, _, body = get(t, lab, "http://127.0.0.1:10256/healthz")
		return code == http.StatusServiceUnavailable
	}, func() string { return fmt.Sprintf("/healthz of a node with the taint: %d", code) })
	if !strings.Contains(body, `"nodeEligible":false`) || !strings.Contains(body, `"healthy":true`) {
		t.Errorf("/healthz of a node with the taint: %s", body)
	}
	if code, _, _ = get(t, lab, "http://127.0.0.1:10256/livez"); code != http.StatusOK {
		t.Errorf("/livez of a node with the taint: %d", code)
	}
}

// curlFrom asks from a host and returns what comes, nothing if it fails.
func curlFrom(t *testing.T, lab *netlab.Lab, host string, args ...string) (out string) {
	t.Helper()
	err := lab.Namespace(host).Do(func() error {
		data, _ := exec.Command("curl", append([]string{"-s", "--max-time", "5"}, args...)...).Output()
		out = string(data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
