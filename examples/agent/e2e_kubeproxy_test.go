package main

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// replaceKubeProxy goes back to kube-proxy and replaces it again, in the order that README.md
// gives, with traffic all the time.
func (e *endToEnd) replaceKubeProxy(t *testing.T) {
	t.Helper()
	for _, mode := range []string{"nftables", "iptables"} {
		t.Run(mode, func(t *testing.T) {
			conn := open(t, e.lab, clusterIPOf(e.web), corev1.ProtocolTCP)
			tr := startTraffic(t, e.lab, e.webWays()...)

			kubeProxy := e.startKubeProxy(t, mode)
			e.stopAgent(t)
			if code := start(t, e.lab, "-cleanup").wait(t); code != exitOK {
				t.Errorf("-cleanup: code %d", code)
			}
			e.terminate(t, "web", podThree)
			e.expectWeb(t, podOne, podTwo)
			e.release(t, "web", podThree)
			if err := conn.Ping(patience); err != nil {
				t.Errorf("back to kube-proxy: the open connection: %v", err)
			}

			kubeProxy.signal(t, syscall.SIGTERM)
			kubeProxy.wait(t)
			if r := e.startAgent(t); r.statements == 0 || r.failed != 0 {
				t.Errorf("round %+v", r)
			}
			if code := startCommand(t, e.lab, nil, e.kubeProxy(), "--cleanup").wait(t); code != exitOK {
				t.Errorf("kube-proxy --cleanup: code %d", code)
			}
			if left := e.kubeProxyRules(t, mode); strings.Contains(left, e.web.Name) {
				t.Errorf("kube-proxy left:\n%s", left)
			}
			e.addPod(t, "web", podThree)
			e.expectWeb(t, podOne, podTwo, podThree)
			e.healthPort(t, http.StatusOK, 1)
			if err := conn.Ping(patience); err != nil {
				t.Errorf("away from kube-proxy: the open connection: %v", err)
			}
			e.count(t, tr)
		})
	}
}

func (e *endToEnd) kubeProxy() string { return filepath.Join(e.bin, "kube-proxy") }

// startKubeProxy starts kube-proxy and waits until it has written its rules.
func (e *endToEnd) startKubeProxy(t *testing.T, mode string) *child {
	t.Helper()
	c := startCommand(t, e.lab, nil, e.kubeProxy(),
		"--kubeconfig="+filepath.Join(e.dir, "kubeconfig"), "--hostname-override=node-1", "--proxy-mode="+mode,
		"--detect-local-mode=InterfaceNamePrefix", "--pod-interface-name-prefix=veth",
		"--healthz-bind-address=127.0.0.1:10266", "--metrics-bind-address=127.0.0.1:10259",
		"--conntrack-max-per-core=0", "--conntrack-tcp-timeout-established=0", "--conntrack-tcp-timeout-close-wait=0")
	var rules string
	eventually(t, func() bool {
		rules = e.kubeProxyRules(t, mode)
		return strings.Contains(rules, "default/"+e.webNodePort.Name)
	}, func() string { return fmt.Sprintf("kube-proxy does not write its rules: %s\n%s", rules, c.text()) })
	return c
}

// kubeProxyRules returns the rules of kube-proxy.
func (e *endToEnd) kubeProxyRules(t *testing.T, mode string) string {
	t.Helper()
	command := "iptables-save -t nat"
	if mode == "nftables" {
		command = "nft list table ip kube-proxy 2>/dev/null || :"
	}
	return onNodeRun(t, e.lab, "bash", "-c", command)
}
