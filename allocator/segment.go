package allocator

import (
	"math/bits"
	"net/netip"
	"slices"
)

// A class says what automatic picks do with a segment.
type class uint8

const (
	closed    class = iota // in no range that is ready
	inStatic               // in the static band of a range that is ready
	inDynamic              // in a range that is ready, in no static band
)

// A segment is a run of addresses of one class. The segments of a family do not
// overlap, however much its ranges do.
type segment struct {
	span
	class class
	set   numberSet
	used  uint64
}

// add marks the address with number n as used. It reports false if it is already.
func (s *segment) add(n uint64) bool {
	if !s.set.add(n) {
		return false
	}
	s.used++
	return true
}

func (s *segment) remove(n uint64) {
	if s.set.remove(n) {
		s.used--
	}
}

func (s *segment) free() uint64 { return s.size - s.used }

// A coverage is a range of one family, and whether it is ready.
type coverage struct {
	prefixRange
	ready bool
}

// newSegments cuts the union of ranges, all of one family, into segments: sorted
// by address, and empty of used addresses. A static band keeps its addresses
// from picks even where another range has them in its dynamic band.
func newSegments(ranges []coverage) []*segment {
	var segments []*segment
	starts := classStarts(ranges)
	for i, start := range starts {
		c, covered := classify(ranges, start)
		if !covered {
			continue
		}
		end := lastOf(ranges)
		if i+1 < len(starts) {
			end = starts[i+1].Prev()
		}
		n, _ := distance(start, end)
		if last := len(segments) - 1; last >= 0 && segments[last].class == c && segments[last].last().Next() == start {
			segments[last].size += n + 1
			continue
		}
		segments = append(segments, &segment{span: span{start, n + 1}, class: c})
	}
	for _, s := range segments {
		s.set = newNumberSet(s.size)
	}
	return segments
}

// classStarts returns the addresses at which the class can change, sorted.
func classStarts(ranges []coverage) []netip.Addr {
	var starts []netip.Addr
	for _, r := range ranges {
		if r.span.size == 0 {
			continue
		}
		starts = append(starts, r.span.first, r.span.at(r.offset))
		if next := r.span.last().Next(); next.IsValid() {
			starts = append(starts, next)
		}
	}
	slices.SortFunc(starts, netip.Addr.Compare)
	return slices.Compact(starts)
}

// lastOf returns the greatest address in ranges.
func lastOf(ranges []coverage) netip.Addr {
	var last netip.Addr
	for _, r := range ranges {
		if r.span.size > 0 && last.Less(r.span.last()) {
			last = r.span.last()
		}
	}
	return last
}

// classify returns the class of a, and whether a is in one of ranges at all.
func classify(ranges []coverage, a netip.Addr) (class, bool) {
	found, c := false, closed
	for _, r := range ranges {
		n, ok := r.span.number(a)
		switch {
		case !ok:
			continue
		case r.ready && n < r.offset:
			return inStatic, true
		case r.ready:
			c = inDynamic
		}
		found = true
	}
	return c, found
}

// find returns the segment that has a, and the number of a in it.
func find(segments []*segment, a netip.Addr) (*segment, uint64) {
	i, _ := slices.BinarySearchFunc(segments, a, func(s *segment, a netip.Addr) int {
		if s.last().Less(a) {
			return -1
		}
		return 1
	})
	if i == len(segments) {
		return nil, 0
	}
	n, ok := segments[i].number(a)
	if !ok {
		return nil, 0
	}
	return segments[i], n
}

// draw returns a free address of a class, each with the same probability, or
// false if there is none. random(n) must return a number below n.
func draw(segments []*segment, c class, random func(uint64) uint64) (netip.Addr, bool) {
	total, high := uint64(0), uint64(0) // 128 bits: two empty /64 need 65
	for _, s := range segments {
		if s.class == c {
			var carry uint64
			total, carry = bits.Add64(total, s.free(), 0)
			high += carry
		}
	}
	if high > 0 {
		return drawWide(segments, c, random), true
	}
	if total == 0 {
		return netip.Addr{}, false
	}
	k := random(total)
	for _, s := range segments {
		switch {
		case s.class != c:
		case k < s.free():
			return s.at(s.set.free(k)), true
		default:
			k -= s.free()
		}
	}
	return netip.Addr{}, false
}

// wideShift scales free counts so that their sum fits into 64 bits for up to 2^16
// segments. Segments with less than 2^16 free addresses are then never drawn;
// beside others with 2^64 of them that makes no difference.
const wideShift = 16

// drawWide is draw for 2^64 and more free addresses.
func drawWide(segments []*segment, c class, random func(uint64) uint64) netip.Addr {
	total := uint64(0)
	for _, s := range segments {
		if s.class == c {
			total += s.free() >> wideShift
		}
	}
	k := random(total)
	for _, s := range segments {
		switch {
		case s.class != c:
		case k < s.free()>>wideShift:
			return s.at(s.set.free(random(s.free())))
		default:
			k -= s.free() >> wideShift
		}
	}
	return netip.Addr{}
}
