package endpoints

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

func TestInterner(t *testing.T) {
	in := newInterner()
	a := in.name(strings.Clone("node-a"))
	if b := in.name(strings.Clone("node-a")); unsafe.StringData(a) != unsafe.StringData(b) {
		t.Error("two copies of one name")
	}
	h := in.hints([]string{strings.Clone("node-a")}, nil)
	if o := in.hints([]string{"node-a"}, nil); o != h || unsafe.StringData(h.ForZones[0]) != unsafe.StringData(a) {
		t.Error("two copies of the same hints")
	}
	for i := range maxNames + 10 {
		in.name(strconv.Itoa(i))
	}
	for i := range maxNames + 10 {
		in.hints([]string{strconv.Itoa(i % 300)}, []string{strconv.Itoa(i / 300)})
	}
	if len(in.pairs) > maxNames {
		t.Errorf("%d hints are kept, want at most %d", len(in.pairs), maxNames)
	}
	if len(in.names) > maxNames {
		t.Errorf("%d names are kept, want at most %d", len(in.names), maxNames)
	}
	if got := in.hints([]string{"node-a"}, nil); got.ForZones[0] != "node-a" || h.ForZones[0] != "node-a" {
		t.Errorf("after starting over %q and %q, want node-a", got.ForZones, h.ForZones)
	}
}

func TestInternerTellsHintsApart(t *testing.T) {
	in := newInterner()
	seen := map[*Hints]int{}
	lists := [][]string{nil, {"a"}, {"b"}, {""}, {"a", "b"}}
	for round := range 2 {
		for i, zones := range lists {
			for j, nodes := range lists {
				h := in.hints(slices.Clone(zones), slices.Clone(nodes))
				if !slices.Equal(h.Zones(), zones) || !slices.Equal(h.Nodes(), nodes) {
					t.Errorf("hints of %q and %q are %q and %q", zones, nodes, h.Zones(), h.Nodes())
				}
				if h == nil {
					continue
				}
				if at, ok := seen[h]; ok && at != i*len(lists)+j {
					t.Errorf("round %d: %q and %q share their hints with another combination", round, zones, nodes)
				}
				seen[h] = i*len(lists) + j
			}
		}
	}
}
