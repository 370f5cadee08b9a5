package main

import (
	"testing"
)

// TestMutations makes every fault, without running the suite: a change of the backend that
// a fault does not fit to any more is noticed at once.
func TestMutations(t *testing.T) {
	t.Chdir("../..")
	names := map[string]bool{}
	for _, m := range mutations() {
		if _, err := m.overlay(t.TempDir()); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
		if names[m.name] || m.scenarios == "" {
			t.Errorf("%s: the name is used twice, or no scenarios are named", m.name)
		}
		names[m.name] = true
	}
}
