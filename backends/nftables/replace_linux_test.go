package nftables

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
	"github.com/vipkit/vipkit/proxy/plan"
)

// TestReplaceUnderFlood starts again and again with other options, which replaces the tables,
// and over stale chains, while connections are made as fast as the machine can. There is no moment
// without rules: one that met none would be refused.
func TestReplaceUnderFlood(t *testing.T) {
	lab := newLab(t)
	if err := lab.Serve(addrPort(remoteA), corev1.ProtocolTCP); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, *twoAddresses(func(c *plan.Config) { c.ServiceCIDRs = append(c.ServiceCIDRs, prefix("10.96.0.0/16")) }))
	web := app{name: "web", vip: "10.96.0.10", eps: remoteA}
	w.within(lab, newBackend(t, Options{}), with(append(everything()[1:], web)...))
	stop := lab.Flood(netlab.Probe{From: "client", Source: addr(client1), Destination: addrPort("10.96.0.10:80")}, 2)
	for turn := range 6 {
		b := newBackend(t, Options{MasqueradeMark: 0x4000 << (turn % 2)})
		r := record(b)
		w.cursor.Reset()
		w.within(lab, b, plan.Input{})
		replaced := strings.Contains(strings.Join(r.texts, ""), "delete table ip ")
		if replaced != (turn > 0) {
			t.Errorf("turn %d: replaced %v", turn, replaced)
		}
	}
	counts, err := stop()
	if err != nil || counts[netlab.Refused]+counts[netlab.NoAnswer] > 0 {
		t.Errorf("#9 connections while the tables were replaced: %v, %v", counts, err)
	}
	t.Log(counts)
}
