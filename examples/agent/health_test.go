package main

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

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

// An httpAnswer is what curl printed.
type httpAnswer struct {
	code   int // 0 if there was no answer
	header http.Header
	body   string
}

func curl(t *testing.T, lab *netlab.Lab, host string, args ...string) (a httpAnswer) {
	t.Helper()
	head, body, _ := strings.Cut(curlFrom(t, lab, host, append([]string{"-i"}, args...)...), "\r\n\r\n")
	lines := strings.Split(head, "\r\n")
	_, _ = fmt.Sscanf(lines[0], "HTTP/1.1 %d", &a.code)
	a.header, a.body = http.Header{}, body
	for _, line := range lines[1:] {
		k, v, _ := strings.Cut(line, ": ")
		a.header.Add(k, v)
	}
	return a
}

// get asks a server on the node.
func get(t *testing.T, lab *netlab.Lab, url string) (code int, body string) {
	t.Helper()
	a := curl(t, lab, netlab.NodeName, url)
	return a.code, a.body
}

// want compares an answer with what is documented.
func (a httpAnswer) want(t *testing.T, code int, body string, header map[string]string) {
	t.Helper()
	if a.code != code || a.body != body {
		t.Errorf("got %d %q, want %d %q", a.code, a.body, code, body)
	}
	for name, value := range header {
		if got := a.header.Get(name); got != value {
			t.Errorf("header %s is %q, want %q", name, got, value)
		}
	}
}

// portBody is what a health-check port of Service default/web says.
func portBody(local int) string {
	return fmt.Sprintf("{\n\t\"service\": {\n\t\t\"namespace\": \"default\",\n\t\t\"name\": \"web\"\n\t},\n"+
		"\t\"localEndpoints\": %d,\n\t\"serviceProxyHealthy\": true\n}", local)
}

func portHeader(local int) map[string]string {
	return map[string]string{
		"Content-Type":                     "application/json",
		"X-Content-Type-Options":           "nosniff",
		"X-Load-Balancing-Endpoint-Weight": fmt.Sprint(local),
	}
}

// TestHealthCheckNodePort asks a real port from outside, as a load balancer does.
func TestHealthCheckNodePort(t *testing.T) {
	const url = "http://" + nodeIP + ":32000"
	lab, dir := newLab(t), t.TempDir()
	web := func(pods ...string) {
		write(t, dir, "web.yaml", service("web", 10, "  type: LoadBalancer\n  externalTrafficPolicy: Local\n  healthCheckNodePort: 32000\n"+
			"status: {loadBalancer: {ingress: [{ip: 198.51.100.10}]}}", pods...))
	}
	ask := func(args ...string) httpAnswer {
		t.Helper()
		return curl(t, lab, "client", args...)
	}
	until := func(code int) {
		t.Helper()
		var a httpAnswer
		eventually(t, func() bool { a = ask(url); return a.code == code }, func() string { return fmt.Sprintf("%+v, want code %d", a, code) })
	}
	web(podOne, podTwo, elsewhereIP)
	c := start(t, lab, args(dir)...)
	c.next(t)
	t.Run("H15 two local endpoints", func(t *testing.T) { ask(url).want(t, http.StatusOK, portBody(2), portHeader(2)) })
	t.Run("H28 any path and method", func(t *testing.T) {
		ask(url+"/any/thing?x=1").want(t, http.StatusOK, portBody(2), portHeader(2))
		ask("-X", "POST", url).want(t, http.StatusOK, portBody(2), portHeader(2))
		ask("-I", url).want(t, http.StatusOK, "", portHeader(2))
	})
	t.Run("H16 #49 no local endpoint", func(t *testing.T) {
		web(elsewhereIP)
		until(http.StatusServiceUnavailable)
		ask(url).want(t, http.StatusServiceUnavailable, portBody(0), portHeader(0))
	})
	t.Run("#52 on the node's address only", func(t *testing.T) {
		if code, body := get(t, lab, "http://127.0.0.1:32000"); code != 0 {
			t.Errorf("loopback answers %d %s", code, body)
		}
	})
	t.Run("the Service goes", func(t *testing.T) {
		if err := os.Remove(filepath.Join(dir, "web.yaml")); err != nil {
			t.Fatal(err)
		}
		until(0)
	})
}

// TestHealthz asks the agent itself.
func TestHealthz(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	const node = "apiVersion: v1\nkind: Node\nmetadata: {name: node-1}\n"
	write(t, dir, "node.yaml", node)
	c := start(t, lab, args(dir, "-healthz-address", "0.0.0.0:10256", "-metrics-address", "127.0.0.1:10249")...)
	c.next(t)
	header := map[string]string{"Content-Type": "application/json", "X-Content-Type-Options": "nosniff"}
	times := regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"`)
	ask := func(host, url string) httpAnswer {
		t.Helper()
		a := curl(t, lab, host, "http://"+url)
		a.body = times.ReplaceAllString(a.body, "TIME")
		return a
	}
	const status = `"status":{"nftables":{"lastUpdated":TIME,"healthy":true}}}`
	const good, live = `{"lastUpdated":TIME,"currentTime":TIME,"nodeEligible":true,"healthy":true,` + status, `{"lastUpdated":TIME,"currentTime":TIME,"healthy":true,` + status
	ask("client", nodeIP+":10256/healthz").want(t, http.StatusOK, good, header)
	ask("client", nodeIP+":10256/livez").want(t, http.StatusOK, live, header)
	ask(netlab.NodeName, "127.0.0.1:10249/healthz").want(t, http.StatusOK, good, header)
	ask(netlab.NodeName, "127.0.0.1:10249/livez").want(t, http.StatusOK, live, header)
	if a := ask("client", nodeIP+":10256/"); a.code != http.StatusNotFound {
		t.Errorf("/: %+v", a)
	}

	// A node that is about to go gets no new connections, and its proxy stays.
	write(t, dir, "node.yaml", node+"spec: {taints: [{key: ToBeDeletedByClusterAutoscaler, effect: NoSchedule}]}\n")
	var a httpAnswer
	eventually(t, func() bool {
		a = ask("client", nodeIP+":10256/healthz")
		return a.code == http.StatusServiceUnavailable
	},
		func() string { return fmt.Sprintf("H08 #53 /healthz of a node with the taint: %+v", a) })
	a.want(t, http.StatusServiceUnavailable, strings.Replace(good, "true", "false", 1), header)
	ask("client", nodeIP+":10256/livez").want(t, http.StatusOK, live, header)
}

func TestMetrics(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	write(t, dir, "far.yaml", service("far", 11, "  internalTrafficPolicy: Local", elsewhereIP))
	c := start(t, lab, args(dir, "-metrics-address", "127.0.0.1:10249")...)
	c.next(t)
	for range 2 {
		get(t, lab, "http://127.0.0.1:10249/healthz")
	}
	if _, body := get(t, lab, "http://127.0.0.1:10249/proxyMode"); body != "nftables" {
		t.Errorf("proxyMode %q", body)
	}
	_, body := get(t, lab, "http://127.0.0.1:10249/metrics")
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
}
