package allocator

// cool moves n from free to quarantined; mu must be held. It ends what is over
// first: otherwise this would pile up where nobody picks.
func (b *book) cool(n uint64) {
	b.expire()
	b.set.add(n)
	b.cooling.put(n, b.opts.Now().Add(b.opts.Quarantine))
	s := b.band(n)
	s.Free--
	s.Quarantined++
}

// warm moves n from quarantined to free; mu must be held.
func (b *book) warm(n uint64) {
	b.cooling.remove(n)
	b.thaw(n)
}

// thaw is warm for a number whose deadline was taken out.
func (b *book) thaw(n uint64) {
	b.set.remove(n)
	s := b.band(n)
	s.Quarantined--
	s.Free++
}

// expire ends what quarantine is over; mu must be held. Each number is looked at
// once, so the cost is paid by its release.
func (b *book) expire() {
	if b.cooling.len() == 0 {
		return
	}
	now := b.opts.Now()
	for n, ok := b.cooling.due(now); ok; n, ok = b.cooling.due(now) {
		b.thaw(n)
	}
}
