package nftables

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/vipkit/vipkit/endpoints"
)

// poolOf returns endpoints named by single letters.
func poolOf(letters string) (pool []*endpoints.Endpoint) {
	for _, l := range letters {
		pool = append(pool, &endpoints.Endpoint{Addr: letterAddr(l)})
	}
	return pool
}

func letterAddr(l rune) netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(l)}), 80)
}

func lettersOf(slots []*endpoints.Endpoint) (s string) {
	for _, e := range slots {
		s += string(rune(e.Addr.Addr().As4()[3]))
	}
	return s
}

func TestReslot(t *testing.T) {
	tests := []struct{ name, old, pool, want string }{
		{"first", "", "abc", "abc"},
		{"same", "cab", "abc", "cab"},
		{"one added", "ab", "abc", "abc"},
		{"last removed", "abc", "ab", "ab"},
		{"first removed: the last moves", "abcd", "bcd", "dbc"},
		{"one replaced", "abcd", "axcd", "axcd"},
		{"two removed", "abcde", "bde", "ebd"},
		{"hole at the end", "abcde", "bcd", "dbc"},
		{"grown and one replaced", "abc", "abxy", "abxy"},
		{"all replaced", "ab", "xyz", "xyz"},
		{"none left", "ab", "", ""},
		{"the same endpoint twice in doubtful slots", "aab", "ab", "ab"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := lettersOf(reslot(poolOf(tt.old), poolOf(tt.pool))); got != tt.want {
				t.Errorf("reslot(%q, %q) = %q, want %q", tt.old, tt.pool, got, tt.want)
			}
		})
	}
}

// FuzzReslot checks that every endpoint has exactly one slot, and that no more slots change
// than must.
func FuzzReslot(f *testing.F) {
	f.Add("abcdef", "acf")
	f.Add("ab", "cdefgh")
	f.Add("", "")
	f.Fuzz(func(t *testing.T, a, b string) {
		old, want := distinct(a), distinct(b)
		got := reslot(poolOf(old), poolOf(want))
		if s := slices.Sorted(slices.Values([]rune(lettersOf(got)))); string(s) != string(slices.Sorted(slices.Values([]rune(want)))) {
			t.Fatalf("reslot(%q, %q) = %q", old, want, lettersOf(got))
		}
		kept := 0
		for i := range min(len(got), len(old)) {
			if got[i].Addr == letterAddr(rune(old[i])) {
				kept++
			}
		}
		must := 0 // what stays and has a slot that is still there
		for i, l := range old {
			if i < len(want) && slices.Contains([]rune(want), l) {
				must++
			}
		}
		if kept < must {
			t.Fatalf("reslot(%q, %q) = %q keeps %d slots, want %d", old, want, lettersOf(got), kept, must)
		}
	})
}

// distinct returns the letters of s, each once, in an order that s decides.
func distinct(s string) (out string) {
	for _, l := range s {
		l = 'a' + l%26
		if l >= 'a' && !slices.Contains([]rune(out), l) {
			out += string(l)
		}
	}
	return out
}

func TestAssignIDs(t *testing.T) {
	slots := poolOf("abcdef")
	first := assignIDs(nil, slots)
	rand.Shuffle(len(slots), func(i, j int) { slots[i], slots[j] = slots[j], slots[i] })
	for dst, id := range assignIDs(nil, slots) {
		if first[dst] != id || !usableID(id) {
			t.Errorf("a restart gives %s the id %x, before %x", dst, id, first[dst])
		}
	}
	a, b := slots[0].Addr, slots[1].Addr
	taken := map[netip.AddrPort]uint32{a: idOf(b)}
	ids := assignIDs(taken, slots)
	if ids[a] != taken[a] || ids[b] != idOf(b)+1 {
		t.Errorf("#79 two endpoints with one id: %x and %x", ids[a], ids[b])
	}
	same := make(map[netip.AddrPort]uint32)
	for _, e := range slots {
		same[e.Addr] = 7
	}
	seen := make(map[uint32]bool)
	for _, id := range assignIDs(same, slots[:3], slots) {
		if seen[id] {
			t.Errorf("#79 an adopted id that all have is still given to two endpoints")
		}
		seen[id] = true
	}
	if len(seen) != len(slots) || !seen[7] {
		t.Errorf("#79 %d ids for %d endpoints, want one for each, and one keeps the adopted id", len(seen), len(slots))
	}
	for dst, id := range assignIDs(map[netip.AddrPort]uint32{a: 0, b: 1<<32 - 1}, slots) {
		if !usableID(id) {
			t.Errorf("#79 %s keeps the id %x, which no packet can have", dst, id)
		}
	}
}
