package allocator

import "slices"

// Limits of a runNode. 64 entries are 24 cache lines, of which a search reads
// few; two neighbours are joined only if the result has room for a quarter
// more, so that it is not split again at once.
const (
	maxEntries  = 64
	joinEntries = maxEntries * 3 / 4
)

// A runNode is a node of a B+ tree of runs. Leaves and inner nodes look the
// same, so that counting and selecting is one loop over both.
//
// Runs that touch are merged within a leaf, not across leaves: that saves a
// second descent, and nothing depends on it.
type runNode struct {
	entries []runEntry // sorted by first, never empty except in a new root
}

// A runEntry is a run in a leaf, and the summary of a subtree in an inner node.
type runEntry struct {
	first uint64   // the least number in it
	used  uint64   // how many numbers are in it
	kid   *runNode // nil in a leaf
}

func (nd *runNode) leaf() bool { return len(nd.entries) == 0 || nd.entries[0].kid == nil }

// floor returns the index of the last entry whose first is at most n, or -1.
func (nd *runNode) floor(n uint64) int {
	low, high := 0, len(nd.entries)
	for low < high {
		mid := (low + high) / 2
		if nd.entries[mid].first <= n {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low - 1
}

// summary returns the entry that stands for nd in its parent.
func (nd *runNode) summary() runEntry {
	e := runEntry{first: nd.entries[0].first, kid: nd}
	for i := range nd.entries {
		e.used += nd.entries[i].used
	}
	return e
}

// insert adds r, of which no number but the first may be there. It reports false
// if the first is, and returns the right half of nd if that had to be split.
func (nd *runNode) insert(r run) (bool, *runNode) {
	if nd.leaf() {
		return nd.insertRun(r), nd.split()
	}
	i := max(nd.floor(r.first), 0)
	e := &nd.entries[i]
	added, right := e.kid.insert(r)
	if !added {
		return false, nil
	}
	e.first = min(e.first, r.first)
	e.used += r.count
	nd.insertRight(i, right)
	return true, nd.split()
}

// insertRun is insert for a leaf.
func (nd *runNode) insertRun(r run) bool {
	i := nd.floor(r.first)
	joinsLeft, joinsRight := false, false
	if i >= 0 {
		e := nd.entries[i]
		if r.first-e.first < e.used {
			return false
		}
		joinsLeft = e.first+e.used == r.first
	}
	if i+1 < len(nd.entries) {
		joinsRight = nd.entries[i+1].first == r.first+r.count
	}
	switch {
	case joinsLeft && joinsRight:
		nd.entries[i].used += r.count + nd.entries[i+1].used
		nd.entries = slices.Delete(nd.entries, i+1, i+2)
	case joinsLeft:
		nd.entries[i].used += r.count
	case joinsRight:
		nd.entries[i+1].first = r.first
		nd.entries[i+1].used += r.count
	default:
		nd.entries = slices.Insert(nd.entries, i+1, runEntry{first: r.first, used: r.count})
	}
	return true
}

// insertRight puts right, the other half of entry i, behind it; nil is no change.
func (nd *runNode) insertRight(i int, right *runNode) {
	if right == nil {
		return
	}
	sum := right.summary()
	nd.entries[i].used -= sum.used
	nd.entries = slices.Insert(nd.entries, i+1, sum)
}

// split halves nd if it is too long, and returns the right half.
func (nd *runNode) split() *runNode {
	if len(nd.entries) <= maxEntries {
		return nil
	}
	half := len(nd.entries) / 2
	right := &runNode{entries: roomy(nd.entries[half:])}
	nd.entries = roomy(nd.entries[:half])
	return right
}

// roomy copies entries to where a node can grow to its limit and not beyond;
// doubling would leave most nodes with twice the memory they ever use.
func roomy(entries []runEntry) []runEntry {
	return append(make([]runEntry, 0, maxEntries+1), entries...)
}

// remove takes n out. It reports false if n is not there, and returns the right
// half of nd if that had to be split, since removing can cut a run in two. It may
// leave nd empty.
func (nd *runNode) remove(n uint64) (bool, *runNode) {
	i := nd.floor(n)
	if i < 0 {
		return false, nil
	}
	e := &nd.entries[i]
	if e.kid == nil {
		return nd.removeNumber(i, n), nd.split()
	}
	removed, right := e.kid.remove(n)
	if !removed {
		return false, nil
	}
	e.used--
	if len(e.kid.entries) == 0 {
		nd.entries = slices.Delete(nd.entries, i, i+1)
		return true, nil
	}
	e.first = e.kid.entries[0].first
	if right != nil {
		nd.insertRight(i, right)
		return true, nd.split()
	}
	if !nd.join(i - 1) {
		nd.join(i)
	}
	return true, nil
}

// removeNumber takes n out of run i of a leaf, if it is in there.
func (nd *runNode) removeNumber(i int, n uint64) bool {
	e := &nd.entries[i]
	end := e.first + e.used
	switch {
	case n >= end:
		return false
	case e.used == 1:
		nd.entries = slices.Delete(nd.entries, i, i+1)
	case n == e.first:
		e.first++
		e.used--
	case n == end-1:
		e.used--
	default:
		e.used = n - e.first
		nd.entries = slices.Insert(nd.entries, i+1, runEntry{first: n + 1, used: end - n - 1})
	}
	return true
}

// join merges entry i and the one after it if both exist and fit well in one
// node.
func (nd *runNode) join(i int) bool {
	if i < 0 || i+1 >= len(nd.entries) {
		return false
	}
	left, right := &nd.entries[i], nd.entries[i+1]
	if len(left.kid.entries)+len(right.kid.entries) > joinEntries {
		return false
	}
	left.kid.entries = append(left.kid.entries, right.kid.entries...)
	left.used += right.used
	nd.entries = slices.Delete(nd.entries, i+1, i+2)
	return true
}
