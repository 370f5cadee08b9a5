package nftables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
)

// The kernel's form of a key is its fields in order, each padded to four bytes;
// numbers of numgen and the packet priority are in the order of the machine.

// errForeign is wrapped by the errors about what we cannot have written.
var errForeign = errors.New("not of this layout")

// fieldLen returns the length of a field in bytes.
func (f *family) fieldLen(fd field) int {
	if (fd == fieldAddr || fd == fieldPrefix) && f.addrType == "ipv6_addr" {
		return 16
	}
	return 4
}

// info returns what is read back of a box.
func (f *family) info(b box) boxInfo {
	i := boxInfo{isMap: b.value != noValue}
	for _, fd := range b.key {
		i.keyLen += uint32(f.fieldLen(fd))
	}
	return i
}

// number returns the protocol's number in IP, 0 if it is none of ours.
func (p protocol) number() byte {
	switch p {
	case "tcp":
		return 6
	case "udp":
		return 17
	case "sctp":
		return 132
	default:
		return 0
	}
}

// protocolNumbered is the reverse of number, "" for others.
func protocolNumbered(n byte) protocol {
	for _, p := range [...]protocol{"tcp", "udp", "sctp"} {
		if p.number() == n {
			return p
		}
	}
	return ""
}

// decodeKey reads a key of b. End is the upper end of a key with a range, nil for others.
func (f *family) decodeKey(b box, data, end []byte) (key, error) {
	var k key
	at := 0
	for _, fd := range b.key {
		n := f.fieldLen(fd)
		if len(data) < at+n {
			return key{}, fmt.Errorf("key of %s: %d bytes: %w", b.name, len(data), errForeign)
		}
		raw := data[at:]
		switch fd {
		case fieldAddr:
			k.addr, _ = netip.AddrFromSlice(raw[:n])
		case fieldProto:
			k.proto = protocolNumbered(raw[0])
		case fieldPort:
			k.port = binary.BigEndian.Uint16(raw)
		case fieldSlot, fieldNumber:
			k.n = binary.NativeEndian.Uint32(raw)
		case fieldPrefix:
			if len(end) < at+n {
				return key{}, fmt.Errorf("key of %s: end has %d bytes: %w", b.name, len(end), errForeign)
			}
			k.src = prefixBetween(raw[:n], end[at:at+n])
		}
		at += n
	}
	return k, nil
}

// prefixBetween returns the prefix from low to high, both included; invalid if there
// is none.
func prefixBetween(low, high []byte) netip.Prefix {
	a, ok := netip.AddrFromSlice(low)
	if !ok {
		return netip.Prefix{}
	}
	bits := 0
	for bits < a.BitLen() && (low[bits/8]^high[bits/8])&(0x80>>(bits%8)) == 0 {
		bits++
	}
	return netip.PrefixFrom(a, bits)
}

// decodeDst reads an address and port, as the maps of endpoints have them.
func (f *family) decodeDst(data []byte) (netip.AddrPort, error) {
	n := f.fieldLen(fieldAddr)
	if len(data) < n+2 {
		return netip.AddrPort{}, fmt.Errorf("destination: %d bytes: %w", len(data), errForeign)
	}
	a, _ := netip.AddrFromSlice(data[:n])
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(data[n:])), nil
}

// encodeKey is the reverse of decodeKey. Low and high are equal but for a range.
func (f *family) encodeKey(b box, k key) (low, high []byte) {
	low = f.appendKey(nil, b, k, false)
	if !b.interval {
		return low, low
	}
	return low, f.appendKey(nil, b, k, true)
}

// appendKey appends a key to out, with the upper end of its range if last is set.
func (f *family) appendKey(out []byte, b box, k key, last bool) []byte {
	for _, fd := range b.key {
		switch fd {
		case fieldAddr:
			out = appendAddr(out, k.addr)
		case fieldProto:
			out = append(out, k.proto.number(), 0, 0, 0)
		case fieldPort:
			out = binary.BigEndian.AppendUint16(out, k.port)
			out = append(out, 0, 0)
		case fieldSlot, fieldNumber:
			out = binary.NativeEndian.AppendUint32(out, k.n)
		case fieldPrefix:
			from, to := bounds(k.src)
			if last {
				from = to
			}
			out = append(out, from...)
		}
	}
	return out
}

func appendAddr(out []byte, a netip.Addr) []byte {
	if a.Is4() {
		four := a.As4()
		return append(out, four[:]...)
	}
	sixteen := a.As16()
	return append(out, sixteen[:]...)
}

// decodeNumber reads a number that is in the packet priority.
func decodeNumber(data []byte) (uint32, error) {
	if len(data) < 4 {
		return 0, fmt.Errorf("number: %d bytes: %w", len(data), errForeign)
	}
	return binary.NativeEndian.Uint32(data), nil
}

// appendDst is the reverse of decodeDst.
func appendDst(out []byte, dst netip.AddrPort) []byte {
	out = binary.BigEndian.AppendUint16(appendAddr(out, dst.Addr()), dst.Port())
	return append(out, 0, 0)
}

// bounds returns the first and last address of a prefix.
func bounds(p netip.Prefix) (first, last []byte) {
	first, last = p.Masked().Addr().AsSlice(), p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	return first, last
}
