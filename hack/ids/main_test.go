package main

import (
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNote(t *testing.T) {
	seen := map[string]bool{}
	literals([]byte("package p\n// X01 in a comment\nvar _ = \"B04 B05 and C10–C12, #7, fault A08b, fault A09, not B07a\"\n"), func(s string) { note(seen, s) })
	want := []string{"#7", "B04", "B05", "C10", "C11", "C12", "fault A08b", "fault A09"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(seen))); diff != "" {
		t.Errorf("ids in a test file (-want +got):\n%s", diff)
	}
}
