package ipvs

import (
	"testing"

	"github.com/vipkit/vipkit/proxy/plan"
)

// The search for a mark ends, also when all are taken, and finds each that is free.
func TestMarksAreBounded(t *testing.T) {
	m := newMarks(Options{MarkBase: 0x56000000, MasqueradeMark: 2})
	m.mask = 7
	owner := func(name string) markOwner {
		var k plan.Key
		k.Name = name
		return markOwner{k, plan.ClusterPool}
	}
	seen := make(map[uint32]bool)
	for _, name := range []string{"a", "b", "c", "d"} {
		for range 2 { // the same again
			mark, err := m.get(owner(name), ServerKey{})
			if err != nil || mark&^5 != 0x56000000 {
				t.Fatalf("mark of %s: %#x, %v", name, mark, err)
			}
			seen[mark] = true
		}
	}
	if len(seen) != 4 {
		t.Errorf("marks of four pools: %v", seen)
	}
	if mark, err := m.get(owner("e"), ServerKey{}); err == nil {
		t.Errorf("a fifth of four marks: %#x", mark)
	}
	mark := m.of[owner("b")]
	m.free(mark)
	if got, err := m.get(owner("e"), ServerKey{}); err != nil || got != mark {
		t.Errorf("mark after one is free: %#x, %v, want %#x", got, err, mark)
	}
}
