package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

// asAgent in the environment makes the test binary be the agent, so that one can be
// started in another namespace and killed.
const asAgent = "VIPKIT_TEST_AS_AGENT"

func TestMain(m *testing.M) {
	if os.Getenv(asAgent) != "" {
		main()
	}
	os.Exit(m.Run())
}

// patience bounds the waiting for something that must happen; what takes longer fails.
const patience = 30 * time.Second

// The addresses of a lab. Pods one to three are on the node, elsewhere is not.
const (
	nodeIP      = "192.0.2.10"
	clientIP    = "192.0.2.1"
	podOne      = "10.244.1.1"
	podTwo      = "10.244.1.2"
	podThree    = "10.244.1.3"
	elsewhereIP = "10.244.2.1" // on node-2
	neighbourIP = "10.244.3.1" // on node-3
	clientPodIP = "10.244.1.9"
)

func addrs(texts ...string) (list []netip.Addr) {
	for _, s := range texts {
		list = append(list, netip.MustParseAddr(s))
	}
	return list
}

// newLab makes the network, with more hosts if the test needs them.
func newLab(t *testing.T, more ...netlab.Host) *netlab.Lab {
	t.Helper()
	lab, err := netlab.New(netlab.Options{
		Node:   addrs(nodeIP),
		Uplink: "client",
		Hosts: append([]netlab.Host{
			{Name: "client", Interface: "eth0", Addresses: addrs(clientIP)},
			{Name: "elsewhere", Interface: "eth1", Addresses: addrs("192.0.2.20", elsewhereIP, neighbourIP)},
			{Name: "one", Interface: "veth1", Addresses: addrs(podOne)},
			{Name: "two", Interface: "veth2", Addresses: addrs(podTwo)},
			{Name: "three", Interface: "veth3", Addresses: addrs(podThree)},
			{Name: "pod", Interface: "veth9", Addresses: addrs(clientPodIP)},
		}, more...),
	})
	if errors.Is(err, errors.ErrUnsupported) && os.Getenv("VIPKIT_REQUIRE_KERNEL") == "" {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, ip := range []string{podOne, podTwo, podThree, elsewhereIP, neighbourIP} {
		for _, proto := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP} {
			if err := lab.Serve(netip.AddrPortFrom(netip.MustParseAddr(ip), 8080), proto); err != nil {
				t.Fatal(err)
			}
		}
	}
	return lab
}

// onNode runs fn in the namespace of the node.
func onNode(t *testing.T, lab *netlab.Lab, fn func() error) {
	t.Helper()
	if err := lab.Namespace(netlab.NodeName).Do(fn); err != nil {
		t.Fatal(err)
	}
}

// onNodeRun returns what a command prints on the node.
func onNodeRun(t *testing.T, lab *netlab.Lab, command ...string) string {
	t.Helper()
	var out []byte
	onNode(t, lab, func() (err error) {
		cmd := exec.Command(command[0], command[1:]...)
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		if out, err = cmd.Output(); err != nil {
			err = fmt.Errorf("%s: %w: %s", command, err, &stderr)
		}
		return err
	})
	return string(out)
}

// nft returns what nft prints on the node.
func nft(t *testing.T, lab *netlab.Lab, args ...string) string {
	t.Helper()
	return onNodeRun(t, lab, append([]string{"nft"}, args...)...)
}

// A child is an agent in a process of its own.
type child struct {
	cmd    *exec.Cmd
	rounds chan string // lines of standard output, closed at the end
	ended  chan struct{}
	err    error // valid when ended is closed

	mu  sync.Mutex
	log bytes.Buffer
}

// Write takes standard error.
func (c *child) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

func (c *child) text() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.String()
}

// start runs an agent on the node and ends it with the test.
func start(t *testing.T, lab *netlab.Lab, args ...string) *child {
	t.Helper()
	return startCommand(t, lab, nil, append([]string{os.Args[0]}, args...)...)
}

// startCommand starts a program that becomes an agent, with more variables in its environment.
func startCommand(t *testing.T, lab *netlab.Lab, env []string, args ...string) *child {
	t.Helper()
	c := &child{rounds: make(chan string, 10000), ended: make(chan struct{})}
	c.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), args[0], args[1:]...)
	c.cmd.Env = slices.Concat(os.Environ(), []string{asAgent + "=1"}, env)
	c.cmd.Stderr = c
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	onNode(t, lab, c.cmd.Start)
	go func() {
		defer close(c.ended)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			c.rounds <- lines.Text()
		}
		close(c.rounds)
		c.err = c.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = c.cmd.Process.Kill()
		<-c.ended
		if t.Failed() {
			t.Logf("agent %s:\n%s", args, c.text())
		}
	})
	return c
}

// wait returns the exit code.
func (c *child) wait(t *testing.T) int {
	t.Helper()
	select {
	case <-c.ended:
		return c.cmd.ProcessState.ExitCode()
	case <-time.After(patience):
		t.Fatal("the agent does not end")
		return -1
	}
}

func (c *child) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// A round is what a line of standard output says.
type round struct {
	full                        bool
	changes, statements, failed int
}

func parseRound(t *testing.T, line string) (r round) {
	t.Helper()
	var duration string
	if _, err := fmt.Sscanf(line, "sync full=%t changes=%d statements=%d failed=%d duration=%s",
		&r.full, &r.changes, &r.statements, &r.failed, &duration); err != nil {
		t.Fatalf("line %q: %v", line, err)
	}
	if _, err := time.ParseDuration(duration); err != nil {
		t.Fatalf("line %q: %v", line, err)
	}
	return r
}

// next returns the next line of standard output.
func (c *child) next(t *testing.T) (r round) {
	t.Helper()
	select {
	case line, ok := <-c.rounds:
		if !ok {
			<-c.ended
			t.Fatalf("the agent ended: %v", c.err)
		}
		return parseRound(t, line)
	case <-time.After(patience):
		t.Fatal("no round")
		return r
	}
}

// onceHere is once in the process of the test, which is faster.
func onceHere(t *testing.T, lab *netlab.Lab, args ...string) (code int, r round) {
	t.Helper()
	var out bytes.Buffer
	onNode(t, lab, func() error {
		code = run(t.Context(), append(args, "-once"), streams{&out, io.Discard})
		return nil
	})
	if out.Len() > 0 {
		r = parseRound(t, out.String())
	}
	return code, r
}

// once runs an agent to its end and returns the exit code and its last round.
func once(t *testing.T, lab *netlab.Lab, args ...string) (code int, r round) {
	t.Helper()
	c := start(t, lab, append(args, "-once")...)
	code = c.wait(t)
	if len(c.rounds) > 0 {
		r = c.next(t)
	}
	return code, r
}

// write replaces a file of a folder at once, as mv does.
func write(t *testing.T, dir, name, data string) {
	t.Helper()
	temporary := filepath.Join(dir, "."+name)
	if err := os.WriteFile(temporary, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
}

// service is a Service with a ClusterIP 10.96.0.n, TCP and UDP on port 80, and its
// slice.
func service(name string, n int, spec string, podIPs ...string) string {
	var eps strings.Builder
	for _, ip := range podIPs {
		node := "node-1"
		if ip == elsewhereIP {
			node = "node-2"
		}
		fmt.Fprintf(&eps, "\n- {addresses: [%s], nodeName: %s, conditions: {ready: true, serving: true, terminating: false}}", ip, node)
	}
	endpoints := eps.String()
	if endpoints == "" {
		endpoints = " []"
	}
	return fmt.Sprintf(`apiVersion: v1
kind: Service
metadata: {name: %[1]s}
spec:
  clusterIP: 10.96.0.%[2]d
  ipFamilies: [IPv4]
  ports: [{name: tcp, port: 80, protocol: TCP}, {name: udp, port: 80, protocol: UDP}]
%[3]s
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: %[1]s-1, labels: {kubernetes.io/service-name: %[1]s}}
addressType: IPv4
ports: [{name: tcp, port: 8080, protocol: TCP}, {name: udp, port: 8080, protocol: UDP}]
endpoints:%[4]s
`, name, n, spec, endpoints)
}

// clusterIP is the frontend of service(…, n, …).
func clusterIP(n int) string { return fmt.Sprintf("10.96.0.%d:80", n) }

// dial opens a connection and returns the address of the server, or the outcome if
// there is none.
func dial(t *testing.T, lab *netlab.Lab, from, to string, timeout time.Duration) string {
	t.Helper()
	return dialQuietly(lab, from, to, timeout)
}

// dialQuietly is dial for other goroutines than the test's.
func dialQuietly(lab *netlab.Lab, from, to string, timeout time.Duration) string {
	res, err := lab.Probe(netlab.Probe{
		From:        from,
		Destination: netip.MustParseAddrPort(to),
		Protocol:    corev1.ProtocolTCP,
		Timeout:     timeout,
	})
	switch {
	case err != nil:
		return err.Error()
	case res.Outcome != netlab.Answered:
		return res.Outcome.String()
	default:
		return res.Answer.Server.Addr().String()
	}
}

// timeoutFor is short where no answer is expected.
func timeoutFor(want []string) time.Duration {
	if len(want) == 1 && want[0] == netlab.NoAnswer.String() {
		return 100 * time.Millisecond
	}
	return 2 * time.Second
}

// expect dials from a pod until the answer is the wanted one.
func expect(t *testing.T, lab *netlab.Lab, to, want string) {
	t.Helper()
	var got string
	eventually(t, func() bool {
		got = dial(t, lab, "pod", to, time.Second)
		return got == want
	}, func() string { return fmt.Sprintf("a pod dials %s: got %s, want %s", to, got, want) })
}

// eventually asks until the answer is yes.
func eventually(t *testing.T, ok func() bool, what func() string) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); <-time.After(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what())
		}
	}
}
