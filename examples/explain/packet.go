package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/examples/internal/nodeflags"
	"github.com/vipkit/vipkit/proxy/plan"
)

// A packet is a packet to trace, with the text that asked for it.
type packet struct {
	text string
	plan.Packet
}

// parsePacket reads SRC,DST:PORT,PROTO[,IFACE].
func parsePacket(text string) (packet, error) {
	parts := strings.Split(text, ",")
	if len(parts) != 3 && len(parts) != 4 {
		return packet{}, errors.New("not of the form SRC,DST:PORT,PROTO[,IFACE]")
	}
	p := packet{text: text}
	var err error
	if p.Source, err = nodeflags.ParseAddr(parts[0]); err != nil {
		return packet{}, err
	}
	if p.Destination, err = parseAddrPort(parts[1]); err != nil {
		return packet{}, err
	}
	if p.Source.Is4() != p.Destination.Addr().Is4() {
		return packet{}, errors.New("source and destination are not of one family")
	}
	if p.Protocol, err = parseProtocol(parts[2]); err != nil {
		return packet{}, err
	}
	if len(parts) == 4 {
		p.Interface = parts[3]
	}
	return p, nil
}

func parseAddrPort(s string) (netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q is not an address and port", s)
	}
	addr, err := nodeflags.ParseAddr(host)
	if err != nil {
		return netip.AddrPort{}, err
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return netip.AddrPort{}, fmt.Errorf("%q is not a port number", port)
	}
	return netip.AddrPortFrom(addr, uint16(n)), nil
}

func parseProtocol(s string) (corev1.Protocol, error) {
	switch p := corev1.Protocol(strings.ToUpper(s)); p {
	case corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP:
		return p, nil
	default:
		return "", fmt.Errorf("protocol %q is none of tcp, udp, sctp", s)
	}
}
