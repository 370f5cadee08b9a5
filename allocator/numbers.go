package allocator

// A numberSet is a set of numbers below a fixed size that can count and select.
// Its users check that numbers are in range.
type numberSet interface {
	// has reports whether n is in the set.
	has(n uint64) bool

	// add puts n in; it reports false if it was there.
	add(n uint64) bool

	// addRun puts in numbers of which none is in the set, nor next to one that is.
	addRun(r run)

	// remove takes n out; it reports false if it was not there.
	remove(n uint64) bool

	// below counts the numbers in the set that are less than n.
	below(n uint64) uint64

	// free returns the k-th number, from 0, that is not in the set. There must
	// be more than k.
	free(k uint64) uint64

	// next returns the least number in the set that is at least n.
	next(n uint64) (uint64, bool)
}

// A run is the numbers from first on, count of them.
type run struct{ first, count uint64 }

// compare returns 0 if n is in r, and otherwise on which side of n r lies.
func (r run) compare(n uint64) int {
	switch {
	case r.first > n:
		return 1
	case n-r.first >= r.count:
		return -1
	}
	return 0
}

// maxDense is the size up to which a set is a bitmap of fixed size. At 2^24 it
// takes 2 MiB; the next size that a Service range could have would take 4 MiB
// for what may be ten Services.
const maxDense = 1 << 24

// newNumberSet returns an empty set for numbers below size.
func newNumberSet(size uint64) numberSet {
	if size <= maxDense {
		return newDenseSet(size)
	}
	return &sparseSet{}
}
