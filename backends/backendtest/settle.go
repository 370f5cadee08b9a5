package backendtest

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/vipkit/vipkit/backends/backendtest/netlab"
)

const (
	// settleTime is how long an asynchronous proxy may take to write a change.
	settleTime = time.Minute

	// firstMarker is the port of the marker's first endpoint.
	firstMarker = 20001
)

// A marker is a Service of the suite's own whose endpoint is another one at each change. A proxy that takes objects one by one may
// write it before the others that came with it, but it has taken all of these before it takes the next marker. So
// a change is written when the second one answers, as a proxy writes what it knows together.
type marker struct {
	player *player
	round  uint16
}

// settle hands over a state with the next marker in it, and then the same state with another one, and waits for both.
func (m *marker) settle(ctx context.Context, set func(State) error) error {
	for range 2 {
		if err := m.settleOne(ctx, set); err != nil {
			return err
		}
	}
	return nil
}

// settleOne hands over a state with the next marker in it, and waits until clients reach that in both
// families.
func (m *marker) settleOne(ctx context.Context, set func(State) error) error {
	m.round++
	port := firstMarker + m.round
	var state State
	for _, f := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		svc, slice := m.objects(f, port)
		state.Services, state.EndpointSlices = append(state.Services, svc), append(state.EndpointSlices, slice)
		if err := m.player.lab.Serve(netip.AddrPortFrom(m.address("c", f), port), corev1.ProtocolTCP); err != nil {
			return err
		}
	}
	if err := set(state); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	for _, f := range []corev1.IPFamily{corev1.IPv4Protocol, corev1.IPv6Protocol} {
		if err := m.wait(ctx, f, port); err != nil {
			return err
		}
	}
	return nil
}

func (m *marker) address(name string, f corev1.IPFamily) netip.Addr {
	return m.player.book.addrs[name][f]
}

// objects returns the marker's Service of one family, which must not change, and its slice.
func (m *marker) objects(f corev1.IPFamily, port uint16) (*corev1.Service, *discoveryv1.EndpointSlice) {
	vip := m.address("marker", f).String()
	meta := metav1.ObjectMeta{Namespace: "marker", Name: map[corev1.IPFamily]string{corev1.IPv4Protocol: "ipv4", corev1.IPv6Protocol: "ipv6"}[f]}
	svc := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{
		ClusterIP: vip, IPFamilies: []corev1.IPFamily{f},
		Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, Port: 80}},
	}}
	defaultService(svc)
	empty, proto, number, ready := "", corev1.ProtocolTCP, int32(port), true
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: meta, AddressType: discoveryv1.AddressType(f),
		Ports:     []discoveryv1.EndpointPort{{Name: &empty, Protocol: &proto, Port: &number}},
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{m.address("c", f).String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: svc.Name}
	return svc, slice
}

// wait returns when the marker is reached at a port.
func (m *marker) wait(ctx context.Context, f corev1.IPFamily, port uint16) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	probe := netlab.Probe{From: "client", Destination: netip.AddrPortFrom(m.address("marker", f), 80), Protocol: corev1.ProtocolTCP, Timeout: m.player.pace.silence}
	for {
		res, err := m.player.lab.Probe(probe)
		if err != nil {
			return err
		}
		if res.Outcome == netlab.Answered && res.Answer.Server.Port() == port {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("the proxy has not written a change in %v: the marker's answer over %s is %s from %s", settleTime, f, res.Outcome, res.Answer.Server)
		}
	}
}
