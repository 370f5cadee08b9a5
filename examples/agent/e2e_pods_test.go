package main

import (
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// finalizer keeps a Pod that was deleted until release.
const finalizer = "vipkit.example/test"

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

// nodeOf returns the name of the Node that a pod's address is on.
func nodeOf(ip string) string {
	switch ip {
	case elsewhereIP:
		return "node-2"
	case neighbourIP:
		return "node-3"
	default:
		return "node-1"
	}
}

// addPod makes a running, ready Pod of an app at an address of the lab, where a server
// runs from now on.
func (c *realCluster) addPod(t *testing.T, app, ip string) {
	t.Helper()
	c.serve(t, ip, +1)
	p := create(t, c.CoreV1().Pods(metav1.NamespaceDefault).Create, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(app, ip), Labels: map[string]string{"app": app}, Finalizers: []string{finalizer}},
		Spec:       corev1.PodSpec{NodeName: nodeOf(ip), Containers: []corev1.Container{{Name: "c", Image: "none"}}},
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

// release lets a Pod that terminates go, and its server with it.
func (c *realCluster) release(t *testing.T, app, ip string) {
	t.Helper()
	c.serve(t, ip, -1)
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

// serve counts the Pods that share an address. Without any nothing listens there: new
// connections are refused.
func (c *realCluster) serve(t *testing.T, ip string, more int) {
	t.Helper()
	before := c.pods[ip]
	c.pods[ip] = before + more
	table := "gone-" + strings.ReplaceAll(ip, ".", "-")
	switch {
	case before == 1 && more < 0:
		c.inPod(t, ip, "add table ip "+table+
			"; add chain ip "+table+" in { type filter hook input priority 0; }"+
			"; add rule ip "+table+" in ip daddr "+ip+" tcp flags & (fin | syn | rst | ack) == syn reject with tcp reset"+
			"; add rule ip "+table+" in ip daddr "+ip+" meta l4proto udp reject")
	case before == 0 && more > 0:
		c.inPod(t, ip, "add table ip "+table+"; delete table ip "+table)
	}
}

// inPod runs nft in the namespace that has the address.
func (c *realCluster) inPod(t *testing.T, ip, commands string) {
	t.Helper()
	err := c.lab.Namespace(c.lab.Owner(netip.MustParseAddr(ip))).Do(func() error {
		out, err := exec.Command("nft", commands).CombinedOutput()
		if err != nil {
			return fmt.Errorf("nft %s: %w: %s", commands, err, out)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// addService makes a Service of an app with TCP and UDP on port 80.
func (c *realCluster) addService(t *testing.T, app string, change func(*corev1.ServiceSpec)) *corev1.Service {
	t.Helper()
	svc := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"app": app},
			Ports: []corev1.ServicePort{
				{Name: "tcp", Port: 80, TargetPort: intstr.FromInt32(8080)},
				{Name: "udp", Port: 80, TargetPort: intstr.FromInt32(8080), Protocol: corev1.ProtocolUDP},
			},
		},
	}
	if change != nil {
		change(&svc.Spec)
	}
	return create(t, c.CoreV1().Services(metav1.NamespaceDefault).Create, svc)
}
