package main

import "testing"

func TestAlike(t *testing.T) {
	set := func(outcomes ...string) map[string]int {
		m := map[string]int{}
		for _, o := range outcomes {
			m[o]++
		}
		return m
	}
	const one, two = "10.0.0.1:80 10.0.0.9", "10.0.0.2:80 10.0.0.9"
	for name, tc := range map[string]struct {
		vague        bool
		ours, theirs map[string]int
		want         bool
	}{
		"as the plan says":           {false, set(one, two), set(one, two), true},
		"both otherwise":             {false, set(one), set(one), false},
		"one loses packets":          {false, set(one, two, timeout), set(one, two), false},
		"the network swallows some":  {true, set(one), set(one, timeout), true},
		"the network swallows all":   {true, set(timeout), set(timeout), true},
		"one swallows what may pass": {true, set(timeout), set(one, timeout), false},
		"one refuses":                {true, set(refused), set(timeout), false},
	} {
		t.Run(name, func(t *testing.T) {
			q := &question{expectation: expectation{want: map[string]bool{one: true, two: true}, vague: tc.vague}, got: []map[string]int{tc.theirs, tc.ours}}
			if got := q.alike(); got != tc.want {
				t.Errorf("alike() = %t, want %t", got, tc.want)
			}
		})
	}
}
