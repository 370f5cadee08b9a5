package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestStaleFlowsAfterRestart restarts without a change, which leaves a UDP flow alone, and
// lets its endpoint go while no agent runs: the client, which uses one socket, must not
// be sent there for ever.
func TestStaleFlowsAfterRestart(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	flows := func() string {
		return onNodeRun(t, lab, "conntrack", "-L", "-p", "udp", "--orig-dst", "10.96.0.10")
	}
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	if code, _ := once(t, lab, args(dir)...); code != exitOK {
		t.Fatalf("code %d", code)
	}
	conn := open(t, lab, clusterIP(10), corev1.ProtocolUDP)
	if got := flows(); !strings.Contains(got, "src="+podOne+" ") {
		t.Fatalf("flows before: %s", got)
	}
	if code, _ := once(t, lab, args(dir)...); code != exitOK {
		t.Fatalf("code %d", code)
	}
	if got := flows(); !strings.Contains(got, "src="+podOne+" ") {
		t.Errorf("#33 a restart removed a healthy flow: %s", got)
	}
	write(t, dir, "web.yaml", service("web", 10, "", podTwo))
	if code, _ := once(t, lab, args(dir)...); code != exitOK {
		t.Fatalf("code %d", code)
	}
	if err := conn.Ping(patience); err != nil {
		t.Fatalf("ping: %v", err)
	}
	if got := flows(); strings.Contains(got, "src="+podOne+" ") || !strings.Contains(got, "src="+podTwo+" ") {
		t.Errorf("flows after the endpoint went: %s", got)
	}
}
