package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// daemonSet returns the manifest.
func daemonSet(t *testing.T) *appsv1.DaemonSet {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("manifests", "daemonset.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	ds := &appsv1.DaemonSet{}
	if err := yaml.UnmarshalStrict(data, ds); err != nil {
		t.Fatal(err)
	}
	return ds
}

// contained returns what runs a command as a container runtime would, as far as rights go: with
// the container's capabilities and no others, on a root file system that cannot be written, and
// with a ServiceAccount's files unless that is "".
func contained(t *testing.T, container corev1.Container, account string, command ...string) []string {
	t.Helper()
	for _, program := range []string{"setpriv", "unshare"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	rights := container.SecurityContext
	if *rights.Privileged || *rights.AllowPrivilegeEscalation || !*rights.ReadOnlyRootFilesystem || rights.Capabilities.Drop[0] != "ALL" {
		t.Fatalf("the container has more rights than this knows how to give: %+v", rights)
	}
	list := []string{"-all"}
	for _, add := range rights.Capabilities.Add {
		list = append(list, "+"+strings.ToLower(string(add)))
	}
	caps := strings.Join(list, ",")
	const mounts = `set -e
mount -t tmpfs tmpfs /run
if [ "$1" ]; then
	mkdir -p /run/secrets/kubernetes.io
	cp -r "$1" /run/secrets/kubernetes.io/serviceaccount
fi
mount -o remount,ro /run
mount -o remount,bind,ro /
shift
exec "$@"`
	return append([]string{
		"unshare", "--mount", "--propagation", "private", "bash", "-c", mounts, "mounts", account,
		"setpriv", "--bounding-set", caps, "--inh-caps", caps, "--no-new-privs",
	}, command...)
}

// TestInitContainer checks that what has all rights does nothing but to set the kernel, as the agent
// that comes after it would.
func TestInitContainer(t *testing.T) {
	pod := daemonSet(t).Spec.Template.Spec
	first, err := parseFlags(pod.InitContainers[0].Args, io.Discard)
	if err != nil || !first.initOnly {
		t.Fatalf("%+v, %v", first, err)
	}
	then, err := parseFlags(pod.Containers[0].Args, io.Discard)
	if err != nil || then.tuner != first.tuner || then.backend != first.backend {
		t.Errorf("first %+v, then %+v, %v", first, then, err)
	}
}

// TestLeastPrivilege runs the agent with what the manifest gives it, and with less.
func TestLeastPrivilege(t *testing.T) {
	lab, dir := newLab(t), t.TempDir()
	write(t, dir, "web.yaml", service("web", 10, "", podOne))
	container := daemonSet(t).Spec.Template.Spec.Containers[0]
	run := func(container corev1.Container, more ...string) *child {
		return startCommand(t, lab, nil, contained(t, container, "", append([]string{os.Args[0]}, args(dir, more...)...)...)...)
	}
	if code := run(container, "-once").wait(t); code != exitOK {
		t.Errorf("-once: code %d", code)
	}
	expect(t, lab, clusterIP(10), podOne)

	c := run(container)
	c.next(t)
	const netAdmin = 1 << 12 // its number in capabilities(7)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.cmd.Process.Pid))
	if want := fmt.Sprintf("CapEff:\t%016x\n", netAdmin); err != nil || !strings.Contains(string(status), want) {
		t.Errorf("%v: the agent has more than %s in\n%s", err, want, status)
	}
	write(t, dir, "web.yaml", service("web", 10, "", podTwo))
	expect(t, lab, clusterIP(10), podTwo)

	if code := run(container, "-cleanup").wait(t); code != exitOK {
		t.Errorf("-cleanup: code %d", code)
	}
	container.SecurityContext.Capabilities.Add = nil
	c = run(container, "-once")
	if code := c.wait(t); code != exitFailed || !strings.Contains(c.text(), "not permitted") {
		t.Errorf("-once without any capability: code %d, log %s", code, c.text())
	}
}
