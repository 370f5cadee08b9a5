package backendtest_test

import (
	"bytes"
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/backends/backendtest"
)

// lines is a Log that can be waited for.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	for line := range bytes.Lines(p) {
		l <- strings.TrimSpace(string(line))
	}
	return len(p), nil
}

// next returns what a program printed next.
func (l lines) next(t *testing.T) string {
	t.Helper()
	select {
	case line := <-l:
		return line
	case <-time.After(30 * time.Second):
		t.Fatal("the program prints nothing")
		return ""
	}
}

// TestCommand starts programs that print what they find. That a real proxy passes scenarios this way is
// a test of the node agent.
func TestCommand(t *testing.T) {
	log := make(lines, 100)
	c := &backendtest.Command{
		Run: `sh -c 'echo "$NODE_NAME $NODE_ZONE $NODE_IPS $POD_CIDRS $POD_INTERFACES $SERVICE_CIDRS $NODEPORT_ADDRESSES ` +
			`$MASQUERADE_ALL $DENY_INVALID_RANGES" $(grep -c ^kind: "$OBJECTS/objects.yaml"); exec sleep 600'`,
		CleanUp: `echo "clean $NODE_NAME"`,
		Dir:     t.TempDir(),
		Log:     log,
	}
	t.Cleanup(func() {
		if err := c.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	set := func(s backendtest.State) {
		t.Helper()
		if err := c.Set(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	state := backendtest.State{
		Settings: backendtest.Settings{
			NodeName: "n1", Zone: "z1", Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")},
			PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16")}, PodInterfaces: []string{"veth-*", "tap0"},
			ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}, NodePortAddresses: []string{"primary"}, DenyInvalidRanges: true,
		},
		Services: []*corev1.Service{{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "one"}}},
	}
	const environment = "z1 192.0.2.1,2001:db8::1 10.1.0.0/16 veth-*,tap0 10.96.0.0/16 primary"
	set(state)
	if got, want := log.next(t), "n1 "+environment+" false true 1"; got != want {
		t.Errorf("the program finds %q, want %q", got, want)
	}
	state.Services = append(state.Services, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "two"}})
	set(state) // the same program
	state.Settings.MasqueradeAll = true
	set(state)
	if got, want := log.next(t), "n1 "+environment+" true true 2"; got != want {
		t.Errorf("with other settings the next program finds %q, want %q", got, want)
	}
	if err := c.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.Cleanup(t.Context()); err != nil {
		t.Error(err)
	}
	if got := log.next(t); got != "clean n1" {
		t.Errorf("CleanUp prints %q", got)
	}
}

func TestCommandEndsByItself(t *testing.T) {
	for status, want := range map[string]string{"0": "ended by itself with status 0", "3": "ended by itself: exit status 3"} {
		c := &backendtest.Command{Run: "sh -c 'exit " + status + "'", Dir: t.TempDir()}
		var err error
		for deadline := time.Now().Add(30 * time.Second); err == nil && time.Now().Before(deadline); <-time.After(time.Millisecond) {
			err = c.Set(t.Context(), backendtest.State{})
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Set after status %s: %v, want %q", status, err, want)
		}
	}
}
