package allocator

import "math/bits"

// Geometry of a denseSet: words of 64 numbers, blocks of 64 words, and
// superblocks of 64 blocks, so that selecting looks at 64 counts per level at
// the most (and 2^24 numbers are 64 superblocks).
const (
	wordBits  = 6
	blockBits = wordBits + 6
	superBits = blockBits + 6
)

// A denseSet is a bitmap with the number of free bits counted per block and
// per superblock. It holds the free numbers as ones, since these are selected.
//
// The cost of every method is bounded by 64 steps per level at any fill level;
// the memory is 1/8 byte per number plus 2 %.
type denseSet struct {
	words  []uint64
	blocks []uint16 // free numbers of each block
	supers []uint32 // free numbers of each superblock
	size   uint64
}

func newDenseSet(size uint64) *denseSet {
	s := &denseSet{
		words:  make([]uint64, units(size, wordBits)),
		blocks: make([]uint16, units(size, blockBits)),
		supers: make([]uint32, units(size, superBits)),
		size:   size,
	}
	for i := range s.words {
		n := min(64, size-uint64(i)<<wordBits)
		s.words[i] = 1<<n - 1 // all ones for 64: the shift gives 0
		s.blocks[i>>6] += uint16(n)
		s.supers[i>>12] += uint32(n)
	}
	return s
}

// units returns how many units of 2^unit numbers cover size numbers.
func units(size uint64, unit uint) uint64 { return (size + 1<<unit - 1) >> unit }

func (s *denseSet) has(n uint64) bool { return s.words[n>>wordBits]>>(n&63)&1 == 0 }

func (s *denseSet) add(n uint64) bool {
	if s.has(n) {
		return false
	}
	s.words[n>>wordBits] &^= 1 << (n & 63)
	s.blocks[n>>blockBits]--
	s.supers[n>>superBits]--
	return true
}

func (s *denseSet) addRun(r run) {
	for n := r.first; n < r.first+r.count; n++ {
		s.add(n)
	}
}

func (s *denseSet) remove(n uint64) bool {
	if !s.has(n) {
		return false
	}
	s.words[n>>wordBits] |= 1 << (n & 63)
	s.blocks[n>>blockBits]++
	s.supers[n>>superBits]++
	return true
}

func (s *denseSet) below(n uint64) uint64 {
	if n >= s.size {
		n = s.size
	}
	word, block, super := n>>wordBits, n>>blockBits, n>>superBits
	free := 0
	for _, c := range s.supers[:super] {
		free += int(c)
	}
	for _, c := range s.blocks[super<<6 : block] {
		free += int(c)
	}
	for _, w := range s.words[block<<6 : word] {
		free += bits.OnesCount64(w)
	}
	if n&63 != 0 {
		free += bits.OnesCount64(s.words[word] & (1<<(n&63) - 1))
	}
	return n - uint64(free)
}

func (s *denseSet) free(k uint64) uint64 {
	super := uint64(0)
	for ; k >= uint64(s.supers[super]); super++ {
		k -= uint64(s.supers[super])
	}
	block := super << 6
	for ; k >= uint64(s.blocks[block]); block++ {
		k -= uint64(s.blocks[block])
	}
	word := block << 6
	for ; k >= uint64(bits.OnesCount64(s.words[word])); word++ {
		k -= uint64(bits.OnesCount64(s.words[word]))
	}
	w := s.words[word]
	for ; k > 0; k-- {
		w &= w - 1 // clears the lowest one
	}
	return word<<wordBits + uint64(bits.TrailingZeros64(w))
}

func (s *denseSet) next(n uint64) (uint64, bool) {
	for n < s.size {
		// A block without used numbers is skipped as a whole.
		if block := n >> blockBits; uint64(s.blocks[block]) == min(1<<blockBits, s.size-block<<blockBits) {
			n = (block + 1) << blockBits
			continue
		}
		used := ^s.words[n>>wordBits] &^ (1<<(n&63) - 1)
		if used == 0 {
			n = (n>>wordBits + 1) << wordBits
			continue
		}
		n = n&^63 + uint64(bits.TrailingZeros64(used))
		return n, n < s.size // the bits behind the end of the last word look used
	}
	return 0, false
}
