package conntrack

import (
	"encoding/binary"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/vipkit/vipkit/internal/ip"
)

// What nl lacks of linux/netfilter/nfnetlink_conntrack.h, and of the kernel's
// nf_internals.h the flag by which a dump is filtered (Linux 5.8).
const (
	ctaTupleZone       = 3
	ctaFilter          = 25
	ctaFilterOrigFlags = 1
	filterProtoNum     = 1 << 3
)

// attrTypeMask takes the flags off an attribute's type (NLA_TYPE_MASK).
const attrTypeMask = 0x3fff

// A message is a netlink request that is being written, or several after each other.
type message struct {
	b []byte
}

// begin starts a request and returns its place, which end needs.
func (m *message) begin(kind uint16, flags int, seq uint32, f corev1.IPFamily) (place int) {
	place = len(m.b)
	m.b = binary.NativeEndian.AppendUint32(m.b, 0) // length, by end
	m.b = binary.NativeEndian.AppendUint16(m.b, unix.NFNL_SUBSYS_CTNETLINK<<8|kind)
	m.b = binary.NativeEndian.AppendUint16(m.b, uint16(unix.NLM_F_REQUEST|flags))
	m.b = binary.NativeEndian.AppendUint32(m.b, seq)
	m.b = binary.NativeEndian.AppendUint32(m.b, 0) // port id, by the kernel
	m.b = append(m.b, afOf(f), nl.NFNETLINK_V0, 0, 0)
	return place
}

func (m *message) end(place int) {
	binary.NativeEndian.PutUint32(m.b[place:], uint32(len(m.b)-place))
}

// attr writes an attribute; what write adds is its value.
func (m *message) attr(kind uint16, write func()) {
	place := len(m.b)
	m.b = binary.NativeEndian.AppendUint16(m.b, 0)
	m.b = binary.NativeEndian.AppendUint16(m.b, kind)
	write()
	binary.NativeEndian.PutUint16(m.b[place:], uint16(len(m.b)-place))
	for len(m.b)%4 != 0 {
		m.b = append(m.b, 0)
	}
}

func (m *message) nested(kind uint16, write func()) { m.attr(kind|unix.NLA_F_NESTED, write) }

func (m *message) bytes(kind uint16, value ...byte) {
	m.attr(kind, func() { m.b = append(m.b, value...) })
}

func (m *message) uint16(kind, value uint16) {
	m.attr(kind, func() { m.b = binary.BigEndian.AppendUint16(m.b, value) })
}

// dump asks for all UDP flows of a family. Kernels that do not know the filter
// ignore it.
func (m *message) dump(seq uint32, f corev1.IPFamily) {
	place := m.begin(nl.IPCTNL_MSG_CT_GET, unix.NLM_F_DUMP, seq, f)
	m.nested(nl.CTA_TUPLE_ORIG, func() {
		m.nested(nl.CTA_TUPLE_PROTO, func() { m.bytes(nl.CTA_PROTO_NUM, unix.IPPROTO_UDP) })
	})
	m.nested(ctaFilter, func() {
		m.attr(ctaFilterOrigFlags, func() { m.b = binary.NativeEndian.AppendUint32(m.b, filterProtoNum) })
	})
	m.end(place)
}

// remove asks for one flow to be deleted. It always has a tuple: without one the
// kernel would delete all flows.
func (m *message) remove(seq uint32, flow Flow) {
	place := m.begin(nl.IPCTNL_MSG_CT_DELETE, unix.NLM_F_ACK, seq, ip.Family(flow.Source.Addr()))
	m.nested(nl.CTA_TUPLE_ORIG, func() { m.tuple(flow) })
	if flow.Zone != 0 {
		m.uint16(nl.CTA_ZONE, flow.Zone)
	}
	if flow.ID != 0 {
		m.attr(nl.CTA_ID, func() { m.b = binary.BigEndian.AppendUint32(m.b, flow.ID) })
	}
	m.end(place)
}

func (m *message) tuple(flow Flow) {
	src, dst := flow.Source, flow.Destination
	m.nested(nl.CTA_TUPLE_IP, func() {
		if src.Addr().Is4() {
			m.bytes(nl.CTA_IP_V4_SRC, src.Addr().AsSlice()...)
			m.bytes(nl.CTA_IP_V4_DST, dst.Addr().AsSlice()...)
			return
		}
		m.bytes(nl.CTA_IP_V6_SRC, src.Addr().AsSlice()...)
		m.bytes(nl.CTA_IP_V6_DST, dst.Addr().AsSlice()...)
	})
	m.nested(nl.CTA_TUPLE_PROTO, func() {
		m.bytes(nl.CTA_PROTO_NUM, unix.IPPROTO_UDP)
		m.uint16(nl.CTA_PROTO_SRC_PORT, src.Port())
		m.uint16(nl.CTA_PROTO_DST_PORT, dst.Port())
	})
	if flow.SourceZone != 0 {
		m.uint16(ctaTupleZone, flow.SourceZone)
	}
}

// A tuple is one direction of a flow.
type tuple struct {
	src, dst netip.AddrPort
	proto    byte
	zone     uint16
}

// parseFlow reads the attributes of a flow; ok is false if it is not UDP or not
// complete. What it does not know it ignores: it may be from a newer kernel.
func parseFlow(b []byte) (f Flow, ok bool) {
	var orig, reply tuple
	for len(b) > 0 {
		var kind uint16
		var value []byte
		if kind, value, b, ok = nextAttr(b); !ok {
			return Flow{}, false
		}
		switch kind {
		case nl.CTA_TUPLE_ORIG:
			orig = parseTuple(value)
		case nl.CTA_TUPLE_REPLY:
			reply = parseTuple(value)
		case nl.CTA_ZONE:
			f.Zone = be16(value)
		case nl.CTA_ID:
			f.ID = be32(value)
		}
	}
	f.Source, f.Destination, f.ReplySource, f.SourceZone = orig.src, orig.dst, reply.src, orig.zone
	ok = orig.proto == unix.IPPROTO_UDP && orig.src.IsValid() && orig.dst.IsValid() && reply.src.IsValid()
	return f, ok
}

func parseTuple(b []byte) tuple {
	var t tuple
	var src, dst netip.Addr
	var srcPort, dstPort uint16
	for kind, value, rest, ok := nextAttr(b); ok; kind, value, rest, ok = nextAttr(rest) {
		switch kind {
		case nl.CTA_TUPLE_IP:
			src, dst = parseAddrs(value)
		case nl.CTA_TUPLE_PROTO:
			t.proto, srcPort, dstPort = parseProto(value)
		case ctaTupleZone:
			t.zone = be16(value)
		}
	}
	t.src, t.dst = netip.AddrPortFrom(src, srcPort), netip.AddrPortFrom(dst, dstPort)
	return t
}

func parseAddrs(b []byte) (src, dst netip.Addr) {
	for kind, value, rest, ok := nextAttr(b); ok; kind, value, rest, ok = nextAttr(rest) {
		switch kind {
		case nl.CTA_IP_V4_SRC, nl.CTA_IP_V6_SRC:
			src, _ = netip.AddrFromSlice(value)
		case nl.CTA_IP_V4_DST, nl.CTA_IP_V6_DST:
			dst, _ = netip.AddrFromSlice(value)
		}
	}
	return src, dst
}

func parseProto(b []byte) (proto byte, srcPort, dstPort uint16) {
	for kind, value, rest, ok := nextAttr(b); ok; kind, value, rest, ok = nextAttr(rest) {
		switch {
		case kind == nl.CTA_PROTO_NUM && len(value) == 1:
			proto = value[0]
		case kind == nl.CTA_PROTO_SRC_PORT:
			srcPort = be16(value)
		case kind == nl.CTA_PROTO_DST_PORT:
			dstPort = be16(value)
		}
	}
	return proto, srcPort, dstPort
}

// nextAttr splits the first attribute off b; ok is false if there is none.
func nextAttr(b []byte) (kind uint16, value, rest []byte, ok bool) {
	if len(b) < unix.SizeofRtAttr {
		return 0, nil, nil, false
	}
	n := int(binary.NativeEndian.Uint16(b))
	if n < unix.SizeofRtAttr || n > len(b) {
		return 0, nil, nil, false
	}
	kind = binary.NativeEndian.Uint16(b[2:]) & attrTypeMask
	return kind, b[unix.SizeofRtAttr:n], b[min(len(b), (n+3)&^3):], true
}

func be16(b []byte) uint16 {
	if len(b) != 2 {
		return 0
	}
	return binary.BigEndian.Uint16(b)
}

func be32(b []byte) uint32 {
	if len(b) != 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func afOf(f corev1.IPFamily) uint8 {
	if f == corev1.IPv6Protocol {
		return unix.AF_INET6
	}
	return unix.AF_INET
}
