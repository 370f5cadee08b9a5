package allocator

import "iter"

// pageSize is how many held numbers are read under one lock.
const pageSize = 256

// A holding is a held number and who has it.
type holding struct {
	n     uint64
	owner Owner
}

// all iterates over the held numbers in ascending order, without holding the
// lock while the caller's loop runs.
func (b *book) all() iter.Seq2[uint64, Owner] {
	return func(yield func(uint64, Owner) bool) {
		var page []holding
		for from := uint64(0); ; from = page[len(page)-1].n + 1 {
			page = b.page(from, page[:0])
			for _, h := range page {
				if !yield(h.n, h.owner) {
					return
				}
			}
			if len(page) < pageSize {
				return
			}
		}
	}
}

// page appends the held numbers from the first one on that is at least from, up
// to pageSize of them.
func (b *book) page(from uint64, page []holding) []holding {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(page) < pageSize {
		n, ok := b.set.next(from)
		if !ok {
			break
		}
		if b.held(n) {
			page = append(page, holding{n, b.owners[n]})
		}
		from = n + 1
	}
	return page
}
