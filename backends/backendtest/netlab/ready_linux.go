package netlab

import (
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// readyTimeout is how long the kernel may take to notice that its new links are up. It
// takes milliseconds, but seconds in an emulated machine.
const readyTimeout = 30 * time.Second

// waitReady waits until datagrams come through between the node and every host in both
// families. Until the kernel has taken notice of a carrier it drops packets, and TCP
// would send them again a second later only.
func (l *Lab) waitReady() error {
	for _, h := range l.opts.Hosts {
		seen := map[bool]bool{}
		for _, a := range h.Addresses {
			if seen[a.Is6()] {
				continue
			}
			seen[a.Is6()] = true
			if err := l.waitFor(a); err != nil {
				return fmt.Errorf("netlab: host %s: %w", h.Name, err)
			}
		}
	}
	return nil
}

// waitFor sends datagrams to a port of the host on which nobody listens, until one is
// refused.
func (l *Lab) waitFor(a netip.Addr) error {
	deadline := time.Now().Add(readyTimeout)
	p := Probe{
		From: NodeName, Destination: netip.AddrPortFrom(a, discardPort), Protocol: corev1.ProtocolUDP,
		Timeout: 5 * time.Millisecond,
	}
	for time.Now().Before(deadline) {
		res, err := l.Probe(p)
		if err == nil && res.Outcome == Refused {
			return nil
		}
		p.Timeout = min(2*p.Timeout, time.Second)
	}
	return fmt.Errorf("%s cannot be reached", a)
}

// discardPort is a port that this package serves nothing on.
const discardPort = 9
