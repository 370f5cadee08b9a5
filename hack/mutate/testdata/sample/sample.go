// Package sample has a piece of each kind that the operators change or leave out.
package sample

import (
	"errors"
	"fmt"
)

// Verdict is one of three.
type Verdict int

// The verdicts.
const (
	Accept Verdict = iota
	Drop
	Reject
)

var errNegative = errors.New("negative")

// Judge has conditions, constants, texts and a return at its end.
func Judge(n, limit int) (Verdict, error) {
	if n < 0 {
		return Drop, fmt.Errorf("n %d: %w", 1, errNegative)
	}
	switch {
	case n == 0 && limit > 0:
		return Accept, nil
	default:
		return Reject, nil
	}
}

// Sum has a loop, statements and a reservation of room.
func Sum[T ~int](list []T) (sum T) {
	seen := make(map[T]bool, 2*len(list))
	for _, n := range list {
		if seen[n] {
			continue
		}
		seen[n] = true
		sum += n
	}
	return sum
}

// Distance has arguments and operands to swap.
func Distance(a, b int) int {
	if a > b {
		return minus(a, b)
	}
	return minus(b, a)
}

func minus(a, b int) int { return a - b }
