package allocator

// A sparseSet is a set of numbers for ranges too large for a bitmap. It keeps
// runs of numbers in a balanced tree that counts, so its memory goes with the
// number of runs (about 40 bytes each), and the cost of every method with the
// logarithm of that number, whatever the size of the range.
//
// Numbers up to 2^64-2 are supported, which is what an IPv6 /64 needs.
type sparseSet struct {
	root *runNode // nil if empty
}

func (s *sparseSet) has(n uint64) bool {
	e := s.at(n)
	return e != nil && n-e.first < e.used
}

// at returns the last run that starts at n or before, nil if there is none.
func (s *sparseSet) at(n uint64) *runEntry {
	for node := s.root; node != nil; {
		i := node.floor(n)
		if i < 0 {
			return nil
		}
		e := &node.entries[i]
		if e.kid == nil {
			return e
		}
		node = e.kid
	}
	return nil
}

func (s *sparseSet) add(n uint64) bool { return s.insert(run{n, 1}) }

func (s *sparseSet) addRun(r run) { s.insert(r) }

// insert reports false if the first number of r is in the set.
func (s *sparseSet) insert(r run) bool {
	if s.root == nil {
		s.root = &runNode{}
	}
	added, right := s.root.insert(r)
	s.grow(right)
	return added
}

func (s *sparseSet) remove(n uint64) bool {
	if s.root == nil {
		return false
	}
	removed, right := s.root.remove(n)
	s.grow(right)
	switch {
	case len(s.root.entries) == 0:
		s.root = nil
	case len(s.root.entries) == 1 && !s.root.leaf():
		s.root = s.root.entries[0].kid
	}
	return removed
}

// grow puts a new root above the old one and right, its other half, if any.
func (s *sparseSet) grow(right *runNode) {
	if right != nil {
		s.root = &runNode{entries: roomy([]runEntry{s.root.summary(), right.summary()})}
	}
}

func (s *sparseSet) below(n uint64) uint64 {
	var used uint64
	for node := s.root; node != nil; {
		i := node.floor(n)
		if i < 0 {
			break
		}
		for _, e := range node.entries[:i] {
			used += e.used
		}
		e := &node.entries[i]
		if e.kid == nil {
			return used + min(e.used, n-e.first)
		}
		node = e.kid
	}
	return used
}

func (s *sparseSet) free(k uint64) uint64 {
	// In front of an entry with first f and u numbers used before it there are
	// f-u free ones. The k-th free number follows the last run for which these
	// are at most k, and is k plus all that is used up to there.
	var used uint64
	for node := s.root; node != nil; {
		var last *runEntry
		for i := range node.entries {
			e := &node.entries[i]
			if e.first-used > k {
				break
			}
			used += e.used
			last = e
		}
		switch {
		case last == nil:
			return k + used
		case last.kid != nil:
			used -= last.used
		}
		node = last.kid
	}
	return k + used
}

func (s *sparseSet) next(n uint64) (uint64, bool) {
	var right *runEntry // the nearest entry after n that was passed
	for node := s.root; node != nil; {
		i := node.floor(n)
		if i+1 < len(node.entries) {
			right = &node.entries[i+1]
		}
		if i < 0 {
			break
		}
		e := &node.entries[i]
		if e.kid == nil && n-e.first < e.used {
			return n, true
		}
		node = e.kid
	}
	if right == nil {
		return 0, false
	}
	return right.first, true
}
