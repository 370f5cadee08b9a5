// Package sameaddr has rules that compare the source of a packet with its destination. Neither
// nftables nor iptables can compare two fields of a packet with each other, so they compare bit
// by bit. That needs no element and no rule for a single endpoint, and holds for each of them.
package sameaddr

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// Masks returns the addresses of a family in which one bit is set, the last bit of the address
// first: there addresses that are near each other differ, so most packets are through after a
// few comparisons.
func Masks(f corev1.IPFamily) []netip.Addr {
	size := 4
	if f == corev1.IPv6Protocol {
		size = 16
	}
	masks := make([]netip.Addr, 0, 8*size)
	for i := range 8 * size {
		b := make([]byte, size)
		b[size-1-i/8] = 1 << (i % 8)
		a, _ := netip.AddrFromSlice(b) // of the right size
		masks = append(masks, a)
	}
	return masks
}

// NFT returns rules in the language of nft, of a chain that returns from where source and
// destination differ, and goes on behind the rules where they are equal.
func NFT(f corev1.IPFamily) []string {
	ip, zero := "ip", netip.IPv4Unspecified()
	if f == corev1.IPv6Protocol {
		ip, zero = "ip6", netip.IPv6Unspecified()
	}
	masks := Masks(f)
	rules := make([]string, 0, 2*len(masks))
	for _, m := range masks {
		for _, op := range [][2]string{{"==", "!="}, {"!=", "=="}} {
			rules = append(rules, fmt.Sprintf("%s saddr & %s %s %s %s daddr & %s %s %s return", ip, m, op[0], zero, ip, m, op[1], zero))
		}
	}
	return rules
}
