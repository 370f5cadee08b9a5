package allocator

import "time"

// deadlines are keys that each end at a time. Each key is in it once, so it takes
// no more than its keys need, whatever the clock does. All methods but those that
// name another cost take O(log n).
type deadlines[K comparable] struct {
	heap []deadline[K] // the earliest first, as a binary heap
	at   map[K]int     // where in heap
}

type deadline[K comparable] struct {
	key   K
	until time.Time
}

// shrinkDeadlines is the capacity from which an empty heap is given back.
const shrinkDeadlines = 1024

func (d *deadlines[K]) len() int { return len(d.heap) }

// has reports whether key has a deadline, in constant time.
func (d *deadlines[K]) has(key K) bool {
	_, ok := d.at[key]
	return ok
}

// put gives key a deadline in place of its former one, if any.
func (d *deadlines[K]) put(key K, until time.Time) {
	if d.at == nil {
		d.at = map[K]int{}
	}
	i, ok := d.at[key]
	if !ok {
		i = len(d.heap)
		d.heap = append(d.heap, deadline[K]{key: key})
		d.at[key] = i
	}
	d.heap[i].until = until
	d.order(i)
}

// remove forgets the deadline of key, if it has one.
func (d *deadlines[K]) remove(key K) {
	i, ok := d.at[key]
	if !ok {
		return
	}
	last := len(d.heap) - 1
	d.swap(i, last)
	d.heap = d.heap[:last]
	delete(d.at, key)
	if i < last {
		d.order(i)
	}
	if last == 0 && cap(d.heap) > shrinkDeadlines {
		*d = deadlines[K]{}
	}
}

// due removes the key with the earliest deadline and returns it, if that is not
// after now.
func (d *deadlines[K]) due(now time.Time) (K, bool) {
	if len(d.heap) == 0 || d.heap[0].until.After(now) {
		var none K
		return none, false
	}
	key := d.heap[0].key
	d.remove(key)
	return key, true
}

// order moves the entry at i to its place, up or down.
func (d *deadlines[K]) order(i int) {
	for i > 0 && d.less(i, (i-1)/2) {
		d.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
	for {
		least := i
		for _, child := range [2]int{2*i + 1, 2*i + 2} {
			if child < len(d.heap) && d.less(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		d.swap(i, least)
		i = least
	}
}

func (d *deadlines[K]) less(i, j int) bool { return d.heap[i].until.Before(d.heap[j].until) }

func (d *deadlines[K]) swap(i, j int) {
	d.heap[i], d.heap[j] = d.heap[j], d.heap[i]
	d.at[d.heap[i].key], d.at[d.heap[j].key] = i, j
}
