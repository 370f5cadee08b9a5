package main

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/vipkit/vipkit/endpoints"
	"github.com/vipkit/vipkit/proxy/plan"
)

// TestRun plays the whole demo. Packets that do not go as planned are an error of run.
func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("run: %v\n%s", err, &out)
	}
	for _, want := range []string{
		"a client outside dials a NodePort: 198.51.100.7 -> 172.18.0.11:30080 tcp",
		"why: 192.0.2.99 is not in the source ranges of default/api:https",
		"why: default/idle:http has no usable endpoint",
		"Endpoint 10.244.1.11 of default/web is replaced by 10.244.1.12",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "only traced") {
		if os.Getenv("VIPKIT_REQUIRE_KERNEL") != "" {
			t.Fatalf("no packets were sent:\n%s", &out)
		}
		t.Skipf("no packets were sent:\n%s", &out)
	}
	// Only the changed endpoint may be written.
	if want := "1 of 10 Service ports written: "; !strings.Contains(out.String(), want) {
		t.Errorf("the output has no %q:\n%s", want, &out)
	}
}

func TestRunWithoutNFT(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out bytes.Buffer
	if err := run(t.Context(), &out); err != nil {
		t.Fatalf("run: %v\n%s", err, &out)
	}
	for _, want := range []string{
		"Packets are only traced",
		"10.96.0.10:80        ClusterIP", // the plan
		"to 10.244.1.10:8080 or 10.244.1.11:8080 or 10.244.2.10:8080",
		"to 10.244.1.10:8080 or 10.244.1.12:8080 or 10.244.2.10:8080",
		"   drop\n   why: 10.96.200.1 is in a Service CIDR",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output has no %q:\n%s", want, &out)
		}
	}
}

func TestRunInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := run(ctx, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("run: %v, want %v", err, context.Canceled)
	}
}

func TestHosts(t *testing.T) {
	objects, err := readManifests()
	if err != nil {
		t.Fatal(err)
	}
	list, err := hosts("node-1", serversOf(objects))
	if err != nil {
		t.Fatal(err)
	}
	owners := map[string]string{}
	for _, h := range list {
		for _, a := range h.Addresses {
			owners[a.String()] = h.Name
		}
	}
	for address, want := range map[string]string{
		partner: uplink, clientPod: "client pod", oldPod: "pod " + oldPod, newPod: "pod " + newPod,
		"10.244.2.10": "node-2", "fd00:10:244:2::50": "node-2", "10.244.1.53": "pod 10.244.1.53",
	} {
		if owners[address] != want {
			t.Errorf("%s belongs to %q, want %q", address, owners[address], want)
		}
	}
}

func TestCheck(t *testing.T) {
	pod, node, source := netip.MustParseAddrPort("10.244.1.5:80"), netip.MustParseAddr("172.18.0.11"), netip.MustParseAddr("10.244.1.9")
	eps := []*endpoints.Endpoint{{Addr: pod}}
	from := func(client netip.Addr, server netip.AddrPort) tally {
		return tally{answers: map[answer]int{{server, client}: 1}}
	}
	packet := plan.Packet{Source: source}
	forward := plan.Trace{Packet: packet, Verdict: plan.Forward, Endpoints: eps}
	masquerade := plan.Trace{Packet: packet, Verdict: plan.Forward, Endpoints: eps, Masquerade: true}
	tests := []struct {
		name  string
		seen  tally
		trace plan.Trace
		ok    bool
	}{
		{"forwarded", from(source, pod), forward, true},
		{"to somebody else", from(source, netip.MustParseAddrPort("10.244.1.6:80")), forward, false},
		{"masqueraded against the plan", from(node, pod), forward, false},
		{"masqueraded", from(node, pod), masquerade, true},
		{"not masqueraded against the plan", from(source, pod), masquerade, false},
		{"exempt", from(source, pod), plan.Trace{Packet: packet, Verdict: plan.Forward, Endpoints: eps, Masquerade: true, Exempt: eps}, true},
		{"hairpin", from(node, pod), plan.Trace{Packet: packet, Verdict: plan.Forward, Endpoints: eps, Hairpin: eps}, true},
		{"no answer", tally{silent: 1}, forward, false},
		{"refused", tally{refused: 1}, plan.Trace{Verdict: plan.Reject}, true},
		{"answered against the plan", from(source, pod), plan.Trace{Packet: packet, Verdict: plan.Reject, Endpoints: eps}, false},
		{"dropped", tally{silent: 1}, plan.Trace{Verdict: plan.Drop}, true},
		{"refused instead of dropped", tally{refused: 1}, plan.Trace{Verdict: plan.Drop}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.seen.check("test", tt.trace, []netip.Addr{node}); (err == nil) != tt.ok {
				t.Errorf("check: error %v, want ok %v", err, tt.ok)
			}
		})
	}
}
