package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

// controlHost is the host of the lab that the control plane runs on, at controlIP.
const (
	controlHost = "control"
	controlIP   = "192.0.2.30"
)

// A realCluster is a control plane without kubelets: pods are hosts of the lab, and the test
// writes their objects.
type realCluster struct {
	kubernetes.Interface
	lab  *netlab.Lab
	dir  string // state of the control plane
	bin  string
	pods map[string]int // by address
}

// newRealCluster starts the control plane with the programs in the folder that VIPKIT_E2E
// names; e2e/control-plane builds them.
func newRealCluster(t *testing.T) *realCluster {
	t.Helper()
	bin := os.Getenv("VIPKIT_E2E")
	if bin == "" {
		t.Skip("VIPKIT_E2E names no folder with a control plane")
	}
	lab := newLab(t, netlab.Host{Name: controlHost, Interface: "eth2", Addresses: addrs(controlIP)})
	c := &realCluster{lab: lab, dir: t.TempDir(), bin: bin, pods: map[string]int{}}
	c.controlPlane(t, "start")
	t.Cleanup(func() {
		if out, err := exec.Command("e2e/control-plane", "stop", c.dir).CombinedOutput(); err != nil {
			t.Errorf("stop the control plane: %v: %s", err, out)
		}
	})
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = 100, 100
	config.Dial = dialIn(lab, controlHost)
	if c.Interface, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	return c
}

// controlPlane runs the script in the namespace of the control plane's host.
func (c *realCluster) controlPlane(t *testing.T, command string) {
	t.Helper()
	err := c.lab.Namespace(controlHost).Do(func() error {
		out, err := exec.Command("e2e/control-plane", command, c.bin, c.dir, controlIP).CombinedOutput()
		if err != nil {
			return fmt.Errorf("%s the control plane: %w: %s", command, err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// create makes an object with a typed client and fails the test if that is refused.
func create[T any](t *testing.T, do func(context.Context, T, metav1.CreateOptions) (T, error), object T) T {
	t.Helper()
	made, err := do(t.Context(), object, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create: %v", err)
	}
	return made
}

// decode reads one document of a manifest.
func decode[T any](t *testing.T, doc string) *T {
	t.Helper()
	object := new(T)
	if err := yaml.UnmarshalStrict([]byte(doc), object); err != nil {
		t.Fatal(err)
	}
	return object
}

// applyManifests gives the API server what a user would apply.
func (c *realCluster) applyManifests(t *testing.T) {
	t.Helper()
	for _, name := range []string{"rbac.yaml", "daemonset.yaml"} {
		data, err := os.ReadFile(filepath.Join("manifests", name))
		if err != nil {
			t.Fatal(err)
		}
		for doc := range strings.SplitSeq(string(data), "\n---\n") {
			c.apply(t, kindOf(t, doc), doc)
		}
	}
}

// kindOf returns the kind of a document.
func kindOf(t *testing.T, doc string) string {
	t.Helper()
	var meta metav1.TypeMeta
	if err := yaml.Unmarshal([]byte(doc), &meta); err != nil {
		t.Fatal(err)
	}
	return meta.Kind
}

func (c *realCluster) apply(t *testing.T, kind, doc string) {
	t.Helper()
	switch kind {
	case "ServiceAccount":
		create(t, c.CoreV1().ServiceAccounts(metav1.NamespaceSystem).Create, decode[corev1.ServiceAccount](t, doc))
	case "ClusterRole":
		create(t, c.RbacV1().ClusterRoles().Create, decode[rbacv1.ClusterRole](t, doc))
	case "ClusterRoleBinding":
		create(t, c.RbacV1().ClusterRoleBindings().Create, decode[rbacv1.ClusterRoleBinding](t, doc))
	case "DaemonSet":
		create(t, c.AppsV1().DaemonSets(metav1.NamespaceSystem).Create, decode[appsv1.DaemonSet](t, doc))
	default:
		t.Fatalf("kind %q", kind)
	}
}

// agentCommand returns what a kubelet would start on the node for the DaemonSet, and its
// environment. What is marked with "set:" is set for the lab.
func (c *realCluster) agentCommand(t *testing.T, node string) (command, env []string) {
	t.Helper()
	pod := daemonSet(t).Spec.Template.Spec
	container := pod.Containers[0]
	command = container.Args
	for _, v := range container.Env {
		switch {
		case v.Name == "KUBERNETES_SERVICE_HOST":
			v.Value = controlIP
		case v.ValueFrom != nil && v.ValueFrom.FieldRef.FieldPath == "spec.nodeName":
			v.Value = node
		}
		for i, arg := range command {
			command[i] = strings.ReplaceAll(arg, "$("+v.Name+")", v.Value)
		}
		env = append(env, v.Name+"="+v.Value)
	}
	// The size of the table is the host's.
	command = slices.Concat([]string{os.Args[0]}, command, []string{"-conntrack-max-per-core=0"})
	return contained(t, container, c.serviceAccount(t, pod.ServiceAccountName), command...), env
}

// serviceAccount returns a folder with what a kubelet mounts for a ServiceAccount.
func (c *realCluster) serviceAccount(t *testing.T, name string) string {
	t.Helper()
	token, err := c.CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(t.Context(), name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	// The API server signed its certificate itself.
	ca, err := os.ReadFile(filepath.Join(c.dir, "certs", "apiserver.crt"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write(t, dir, "token", token.Status.Token)
	write(t, dir, "ca.crt", string(ca))
	return dir
}
