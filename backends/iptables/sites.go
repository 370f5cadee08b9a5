package iptables

import (
	"math/bits"
	"net/netip"
	"slices"
)

// A site is an address, a protocol and a port as bytes, so that sites sort by their
// bits and have prefixes. The address is missing in what is found by port only, and
// protocol and port in what is found by address only.
type site string

const (
	protocolBits = 8
	portBits     = 16
)

func siteOf(a netip.Addr, p protocol, port uint16) site {
	b := append(a.AsSlice(), byte(p), byte(port>>8), byte(port))
	return site(b)
}

func addrSite(a netip.Addr) site { return site(a.AsSlice()) }

// common returns the number of leading bits that a and b share.
func common(a, b site) int {
	n := min(len(a), len(b))
	for i := range n {
		if x := a[i] ^ b[i]; x != 0 {
			return i*8 + bits.LeadingZeros8(x)
		}
	}
	return n * 8
}

// first returns s with all bits but the first n cleared.
func (s site) first(n int) site {
	b := []byte(s)
	for i := range b {
		switch keep := n - i*8; {
		case keep <= 0:
			b[i] = 0
		case keep < 8:
			b[i] &^= 0xff >> keep
		}
	}
	return site(b)
}

// deleteSorted takes some keys, all of which are there, out of many. Each key moves at most once, in
// long runs: two keys of 50,000 cost no more than one.
func deleteSorted(keys, gone []site) []site {
	to, from := 0, 0
	for i, k := range gone {
		at, _ := slices.BinarySearch(keys[from:], k)
		if at += from; i == 0 {
			to = at
		} else {
			to += copy(keys[to:], keys[from:at])
		}
		from = at + 1
	}
	if from > 0 {
		to += copy(keys[to:], keys[from:])
		clear(keys[to:])
		keys = keys[:to]
	}
	return keys
}

// insertSorted puts some keys, none of which is there, among many, from the last to the first.
func insertSorted(keys, come []site) []site {
	end := len(keys) // of what has not moved yet
	keys = slices.Grow(keys, len(come))[:len(keys)+len(come)]
	for i, key := range slices.Backward(come) {
		at, _ := slices.BinarySearch(keys[:end], key)
		copy(keys[at+i+1:], keys[at:end])
		keys[at+i] = key
		end = at
	}
	return keys
}

// match returns the match for a site, as in a tree of any family.
func (s site) match() string {
	d := dispatch{}
	switch n := len(s); {
	case n == 4 || n == 16:
		d.addrs = 8 * n
	case n >= 4:
		d.addrs = 8*n - protocolBits - portBits
	}
	return d.match(s, 8*len(s))
}
