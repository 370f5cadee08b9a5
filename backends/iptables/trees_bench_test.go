package iptables

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"testing"
)

// BenchmarkDispatch changes some sites among many: new ones come and go, or what is there stays as it is.
func BenchmarkDispatch(b *testing.B) {
	for _, n := range []int{1000, 50_000} {
		for _, changed := range []int{1, 2, 20} {
			b.Run(fmt.Sprintf("sites=%d/changed=%d", n, changed), func(b *testing.B) {
				d := newDispatch("IPS", "x", 32)
				d.update(sitesOf(10<<24, n, doAccept))
				come, leave := sitesOf(11<<24, changed, doAccept), sitesOf(11<<24, changed, "")
				b.ReportAllocs()
				for b.Loop() {
					d.update(come)
					d.update(leave)
				}
			})
		}
		b.Run(fmt.Sprintf("sites=%d/unchanged=2", n), func(b *testing.B) {
			d := newDispatch("IPS", "x", 32)
			d.update(sitesOf(10<<24, n, doAccept))
			same := sitesOf(10<<24, 2, doAccept)
			b.ReportAllocs()
			for b.Loop() {
				d.update(maps.Clone(same))
			}
		})
	}
}

// sitesOf returns n sites with consecutive addresses, and what is done there.
func sitesOf(first uint32, n int, what string) map[site]string {
	out := make(map[site]string, n)
	for i := range n {
		var a [4]byte
		binary.BigEndian.PutUint32(a[:], first+uint32(i))
		out[siteOf(netip.AddrFrom4(a), protocolTCP, 80)] = what
	}
	return out
}
