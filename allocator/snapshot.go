package allocator

import (
	"errors"
	"fmt"
	"math/bits"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// maxAllocationBits bounds the data of a RangeAllocation: 2 MiB, far beyond what
// the API server accepts.
const maxAllocationBits = maxDense

var errNoAllocation = errors.New("not a range that a RangeAllocation can describe")

// Allocation returns the addresses in use in the form that API servers keep
// under /ranges: bit i of the data, from its end, is the i-th address after the
// network address. Owners, exclusions and quarantine are not in it.
//
// It returns an [*Error] if the pool is not one of [NewPool] or [NewBitmapPool],
// or too large, or if an address is in use that the form has no bit for, which
// happens with IPv6 prefixes shorter than /112 only. It takes time in
// proportion to the addresses in use.
func (p *Pool) Allocation() (*corev1.RangeAllocation, error) { return p.ledger.allocation() }

// RestoreAllocation makes the addresses in ra the only ones in use, without
// owner; exclusions stay. It returns an [*Error] that wraps [ErrMismatch] if ra
// is of another range, [ErrCorrupt] if it has bits beyond the range, or
// [ErrReserved] if it has an excluded address; the pool is then unchanged.
func (p *Pool) RestoreAllocation(ra *corev1.RangeAllocation) error {
	return p.ledger.restoreAllocation(ra)
}

// Allocation returns the ports in use in the form that API servers keep under
// /ranges/servicenodeports; see [Pool.Allocation].
func (p *PortPool) Allocation() (*corev1.RangeAllocation, error) { return p.ledger.allocation() }

// RestoreAllocation makes the ports in ra the only ones in use; see
// [Pool.RestoreAllocation].
func (p *PortPool) RestoreAllocation(ra *corev1.RangeAllocation) error {
	return p.ledger.restoreAllocation(ra)
}

// hasAllocation reports whether the range can be a RangeAllocation at all.
func (l *ledger[T]) hasAllocation() bool {
	return l.bits <= maxAllocationBits && (l.bits > 0 || l.size == 0)
}

func (l *ledger[T]) allocation() (*corev1.RangeAllocation, error) {
	if !l.hasAllocation() {
		return nil, &Error{Op: "snapshot", Value: l.text, Err: errNoAllocation}
	}
	image := make([]byte, (l.bits+7)/8) // lowest bit first
	for n := range l.all() {
		if n >= l.bits {
			return nil, &Error{Op: "snapshot", Value: l.kind.label(l.kind.at(n)), Err: errNoAllocation}
		}
		image[n/8] |= 1 << (n % 8)
	}
	for len(image) > 0 && image[len(image)-1] == 0 {
		image = image[:len(image)-1]
	}
	slices.Reverse(image)
	return &corev1.RangeAllocation{Range: l.text, Data: image}, nil
}

func (l *ledger[T]) restoreAllocation(ra *corev1.RangeAllocation) error {
	if ra == nil {
		ra = &corev1.RangeAllocation{} // of no range
	}
	if ra.Range != l.text {
		return &Error{Op: "restore", Value: ra.Range, Err: fmt.Errorf("%w: want %s", ErrMismatch, l.text)}
	}
	if !l.hasAllocation() {
		return &Error{Op: "restore", Value: l.text, Err: errNoAllocation}
	}
	var runs []run
	for i, octet := range slices.Backward(ra.Data) {
		base := uint64(len(ra.Data)-1-i) * 8
		for ; octet != 0; octet &= octet - 1 { // clears the lowest one
			runs = appendNumber(runs, base+uint64(bits.TrailingZeros8(octet)))
		}
	}
	return l.restore(runs, nil, l.bits)
}

// appendNumber adds n, which is greater than all numbers in runs.
func appendNumber(runs []run, n uint64) []run {
	if last := len(runs) - 1; last >= 0 && runs[last].first+runs[last].count == n {
		runs[last].count++
		return runs
	}
	return append(runs, run{n, 1})
}

// restore replaces what is held by runs, which are sorted and apart and must
// end before limit, and by the owners of some of them.
func (l *ledger[T]) restore(runs []run, owners map[uint64]Owner, limit uint64) error {
	if last := len(runs) - 1; last >= 0 && runs[last].first+runs[last].count > limit {
		return &Error{Op: "restore", Value: l.text, Err: fmt.Errorf("%w: an entry beyond the range", ErrCorrupt)}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for n := range l.excluded {
		if _, found := slices.BinarySearchFunc(runs, n, run.compare); found {
			return &Error{Op: "restore", Value: l.kind.label(l.kind.at(n)), Err: ErrReserved}
		}
	}
	l.reset(runs)
	if owners != nil {
		l.owners = owners
	}
	return nil
}
