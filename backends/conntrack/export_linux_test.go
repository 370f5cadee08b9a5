package conntrack

import (
	"encoding/binary"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/ip"
)

// createdTimeout is how long a flow of CreateFlows lives, in seconds.
const createdTimeout = 600

// CreateFlows puts flows into the table of the calling thread's network namespace.
func CreateFlows(flows []Flow) error {
	s, err := openSocket()
	if err != nil {
		return err
	}
	defer s.close()
	for len(flows) > 0 {
		n := min(len(flows), batchSize)
		var m message
		for i, flow := range flows[:n] {
			m.create(uint32(i), flow)
		}
		if err := s.send(m.b); err != nil {
			return err
		}
		if _, err := s.acknowledged(n); err != nil {
			return err
		}
		flows = flows[n:]
	}
	return nil
}

func (m *message) create(seq uint32, flow Flow) {
	place := m.begin(nl.IPCTNL_MSG_CT_NEW, unix.NLM_F_ACK|unix.NLM_F_CREATE|unix.NLM_F_EXCL, seq, ip.Family(flow.Source.Addr()))
	m.nested(nl.CTA_TUPLE_ORIG, func() { m.tuple(flow) })
	m.nested(nl.CTA_TUPLE_REPLY, func() { m.tuple(Flow{Source: flow.ReplySource, Destination: flow.Source}) })
	if flow.Zone != 0 {
		m.uint16(nl.CTA_ZONE, flow.Zone)
	}
	m.attr(nl.CTA_TIMEOUT, func() { m.b = binary.BigEndian.AppendUint32(m.b, createdTimeout) })
	m.end(place)
}

// CountAnswers returns how many entries the kernel sends for the request of Flows.
func CountAnswers(f corev1.IPFamily) (n int, err error) {
	s, err := openSocket()
	if err != nil {
		return 0, err
	}
	defer s.close()
	var m message
	m.dump(1, f)
	if err := s.send(m.b); err != nil {
		return 0, err
	}
	for {
		b, err := s.receive()
		if err != nil {
			return n, err
		}
		for len(b) > 0 {
			var a answer
			if a, b, err = nextAnswer(b); err != nil {
				return n, err
			}
			if a.kind == unix.NLMSG_DONE || a.kind == unix.NLMSG_ERROR {
				return n, a.end(false)
			}
			n++
		}
	}
}
