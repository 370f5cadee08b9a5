package sample

import "testing"

func TestJudge(t *testing.T) {
	if v, err := Judge(-1, 1); v != Drop || err == nil {
		t.Error(v, err)
	}
	if v, err := Judge(0, 1); v != Accept || err != nil {
		t.Error(v, err)
	}
	if v, err := Judge(0, 0); v != Reject || err != nil {
		t.Error(v, err)
	}
	if v, err := Judge(1, 1); v != Reject || err != nil {
		t.Error(v, err)
	}
}

func TestSum(t *testing.T) {
	if got := Sum([]int{1, 2, 2}); got != 3 {
		t.Error(got)
	}
}

// TestDistance does not try equal numbers.
func TestDistance(t *testing.T) {
	if got := Distance(5, 3); got != 2 {
		t.Error(got)
	}
	if got := Distance(3, 5); got != 2 {
		t.Error(got)
	}
}
