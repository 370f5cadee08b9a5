package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
	lab *netlab.Lab
	dir string // state of the control plane
	bin string
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
	c := &realCluster{lab: lab, dir: t.TempDir(), bin: bin}
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
	// The socket belongs to the namespace in which it is made.
	config.Dial = func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = lab.Namespace(controlHost).Do(func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
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

// agentConfig writes a kubeconfig of the agent's ServiceAccount and returns its path.
func (c *realCluster) agentConfig(t *testing.T) string {
	t.Helper()
	token, err := c.CoreV1().ServiceAccounts(metav1.NamespaceSystem).CreateToken(t.Context(), "vipkit-agent",
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text := fmt.Sprintf(`apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://%s:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: %q}}]
contexts: [{name: c, context: {cluster: c, user: u}}]
current-context: c
`, controlIP, token.Status.Token)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// addNode makes a Node with the address in a zone.
func (c *realCluster) addNode(t *testing.T, name, ip, zone string) {
	t.Helper()
	n := create(t, c.CoreV1().Nodes().Create, &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}},
	})
	n.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	if _, err := c.CoreV1().Nodes().UpdateStatus(t.Context(), n, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

// addPod makes a running, ready Pod of an app at an address of the lab. It has a
// finalizer: when it is deleted it terminates until release.
func (c *realCluster) addPod(t *testing.T, app, ip string) {
	t.Helper()
	node := "node-1"
	if ip == elsewhereIP {
		node = "node-2"
	}
	p := create(t, c.CoreV1().Pods(metav1.NamespaceDefault).Create, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(app, ip), Labels: map[string]string{"app": app}, Finalizers: []string{"vipkit.example/test"}},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	})
	p.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}},
		Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
	}
	if _, err := c.CoreV1().Pods(metav1.NamespaceDefault).UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func podName(app, ip string) string { return app + "-" + strings.ReplaceAll(ip, ".", "-") }

// terminate begins the end of a Pod: it still serves.
func (c *realCluster) terminate(t *testing.T, app, ip string) {
	t.Helper()
	if err := c.CoreV1().Pods(metav1.NamespaceDefault).Delete(t.Context(), podName(app, ip), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

// release lets a Pod that terminates go.
func (c *realCluster) release(t *testing.T, app, ip string) {
	t.Helper()
	pods := c.CoreV1().Pods(metav1.NamespaceDefault)
	eventually(t, func() bool {
		p, err := pods.Get(t.Context(), podName(app, ip), metav1.GetOptions{})
		if err != nil {
			return false
		}
		p.Finalizers = nil
		_, err = pods.Update(t.Context(), p, metav1.UpdateOptions{})
		return err == nil
	}, func() string { return "the Pod cannot be released" })
	zero := int64(0)
	// A Pod with a node waits for a kubelet to end it: there is none.
	_ = pods.Delete(t.Context(), podName(app, ip), metav1.DeleteOptions{GracePeriodSeconds: &zero})
}

// addService makes a Service of an app with port 80.
func (c *realCluster) addService(t *testing.T, app string, change func(*corev1.ServiceSpec)) *corev1.Service {
	t.Helper()
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app},
			Ports:    []corev1.ServicePort{{Port: 80}},
		},
	}
	svc.Spec.Ports[0].TargetPort.IntVal = 8080
	if change != nil {
		change(&svc.Spec)
	}
	return create(t, c.CoreV1().Services(metav1.NamespaceDefault).Create, svc)
}

// traffic dials again and again in the background, and counts.
type traffic struct {
	stop chan struct{}
	done chan struct{}

	requests, failures int // valid when done
	last               string
}

func (c *realCluster) traffic(t *testing.T, from, to string) *traffic {
	t.Helper()
	tr := &traffic{stop: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(tr.done)
		for !isClosed(tr.stop) {
			got := dialQuietly(c.lab, from, to, 2*time.Second)
			tr.requests++
			if net.ParseIP(got) == nil {
				tr.failures++
				tr.last = got
			}
		}
	}()
	t.Cleanup(func() { tr.end() })
	return tr
}

// end stops the traffic and returns its counts.
func (tr *traffic) end() (requests, failures int) {
	if !isClosed(tr.stop) {
		close(tr.stop)
	}
	<-tr.done
	return tr.requests, tr.failures
}
