package endpoints

import (
	"bytes"
	"cmp"
	"net/netip"
)

// compareText orders addresses by the bytes of their text. Most are IPv4, for which no
// text is made: none is kept, since it would be a fifth of what an endpoint takes.
func compareText(a, b netip.AddrPort) int {
	switch {
	case a == b:
		return 0
	case a.Addr().Is4() && b.Addr().Is4():
		return compareText4(a, b)
	}
	var x, y [64]byte // the longest IPv6 address with brackets and port has 47 bytes
	return bytes.Compare(a.AppendTo(x[:0]), b.AppendTo(y[:0]))
}

func compareText4(a, b netip.AddrPort) int {
	x, y := a.Addr().As4(), b.Addr().As4()
	last := len(x) - 1
	for i := range x {
		if x[i] != y[i] {
			// A dot sorts before every digit, the colon after the last number behind them.
			return compareDigits(uint32(x[i]), uint32(y[i]), i != last)
		}
	}
	return compareDigits(uint32(a.Port()), uint32(b.Port()), true)
}

// compareDigits orders different decimal numbers by the bytes of their text. If one begins with
// the other, shortFirst says which comes first.
func compareDigits(a, b uint32, shortFirst bool) int {
	p, q := magnitude(a), magnitude(b)
	switch {
	case p < q:
		return -comparePrefix(b/(q/p), a, shortFirst)
	case p > q:
		return comparePrefix(a/(p/q), b, shortFirst)
	default:
		return cmp.Compare(a, b)
	}
}

// comparePrefix compares a longer number, of which head is as much as short has digits,
// with short.
func comparePrefix(head, short uint32, shortFirst bool) int {
	switch {
	case head != short:
		return cmp.Compare(head, short)
	case shortFirst:
		return 1
	default:
		return -1
	}
}

// magnitude returns the power of ten of the first digit of n.
func magnitude(n uint32) uint32 {
	m := uint32(1)
	for ; n >= 10; n /= 10 {
		m *= 10
	}
	return m
}
