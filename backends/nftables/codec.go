package nftables

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// The kernel's form of a key is its fields in order, each padded to four bytes;
// numbers of numgen and the packet priority are in the order of the machine.

// words returns the length of a field in bytes.
func (f *family) fieldLen(fd field) int {
	if (fd == fieldAddr || fd == fieldPrefix) && f.addrType == "ipv6_addr" {
		return 16
	}
	return 4
}

func protocolNumbers() map[byte]protocol { return map[byte]protocol{6: "tcp", 17: "udp", 132: "sctp"} }

func (p protocol) number() byte {
	for n, q := range protocolNumbers() {
		if p == q {
			return n
		}
	}
	return 0
}

// decodeKey reads a key of b. End is the upper end of a key with a range, nil for others.
func (f *family) decodeKey(b box, data, end []byte) (key, error) {
	var k key
	at := 0
	for _, fd := range b.key {
		n := f.fieldLen(fd)
		if len(data) < at+n {
			return key{}, fmt.Errorf("key of %s: %d bytes", b.name, len(data))
		}
		raw := data[at:]
		switch fd {
		case fieldAddr:
			k.addr, _ = netip.AddrFromSlice(raw[:n])
		case fieldProto:
			k.proto = protocolNumbers()[raw[0]]
		case fieldPort:
			k.port = binary.BigEndian.Uint16(raw)
		case fieldSlot, fieldID:
			k.n = binary.NativeEndian.Uint32(raw)
		case fieldPrefix:
			if len(end) < at+n {
				return key{}, fmt.Errorf("key of %s: end has %d bytes", b.name, len(end))
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
		return netip.AddrPort{}, fmt.Errorf("destination: %d bytes", len(data))
	}
	a, _ := netip.AddrFromSlice(data[:n])
	return netip.AddrPortFrom(a, binary.BigEndian.Uint16(data[n:])), nil
}

// encodeKey is the reverse of decodeKey. Low and high are equal but for a range.
func (f *family) encodeKey(b box, k key) (low, high []byte) {
	for _, fd := range b.key {
		word := make([]byte, 4)
		switch fd {
		case fieldAddr:
			word = k.addr.AsSlice()
		case fieldProto:
			word[0] = k.proto.number()
		case fieldPort:
			binary.BigEndian.PutUint16(word, k.port)
		case fieldSlot, fieldID:
			binary.NativeEndian.PutUint32(word, k.n)
		case fieldPrefix:
			first, last := bounds(k.src)
			low, high = append(low, first...), append(high, last...)
			continue
		}
		low, high = append(low, word...), append(high, word...)
	}
	return low, high
}

// bounds returns the first and last address of a prefix.
func bounds(p netip.Prefix) (first, last []byte) {
	first, last = p.Masked().Addr().AsSlice(), p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(last)*8; i++ {
		last[i/8] |= 0x80 >> (i % 8)
	}
	return first, last
}
